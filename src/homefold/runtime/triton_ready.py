"""Whether Triton can build kernels here: it takes a C compiler along with the package, and servers often have none."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import torch

__all__ = ["why_no_triton"]


@cache
def why_no_triton(device: torch.device) -> str:
    """What is missing for kernels on a CUDA device, and how to get it; empty where nothing is.

    What is known to be missing is named without importing Triton. Where nothing is, and there is a GPU, a first kernel
    is built, since a build can fail for more than can be foreseen.
    """
    if find_spec("triton") is None:
        return "Triton is not installed"
    if sys.platform == "win32":
        # Its build for Windows brings a compiler along.
        return _why_no_build(device)
    named = os.environ.get("CC")
    if named is not None and not shutil.which(named):
        return f"Triton would call the C compiler that the environment variable CC names, and {named!r} is no program"
    if named is None and not any(shutil.which(name) for name in ("gcc", "clang")):
        return "Triton finds no C compiler; install gcc or clang, or name one in the environment variable CC"
    # As Triton looks for them: Debian's own scheme names a folder that does not hold them.
    scheme = sysconfig.get_default_scheme()
    headers = Path(sysconfig.get_paths("posix_prefix" if scheme == "posix_local" else scheme)["include"])
    if not (headers / "Python.h").exists():
        package = f"python{sys.version_info.major}.{sys.version_info.minor}-dev"
        return f"Triton needs Python's headers, and {headers} has none; install them (Debian and Ubuntu: {package})"
    return _why_no_build(device)


def _why_no_build(device: torch.device) -> str:
    if not torch.cuda.is_available():
        return ""
    try:
        from homefold.runtime.trial_kernel import build_and_run

        with torch.cuda.device(device):
            build_and_run()
    except torch.OutOfMemoryError:
        # The device is full, and that is for whoever needs it to say.
        raise
    except Exception as failure:
        said = str(failure).strip().partition("\n")[0]
        return f"Triton cannot build a kernel here ({type(failure).__name__}: {said})"
    return ""
