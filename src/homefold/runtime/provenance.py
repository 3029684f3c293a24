"""What a result was computed with: hardware, versions, commit."""

from __future__ import annotations

import os
import platform
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path

import torch

from homefold.version import __version__

__all__ = ["code_commit", "hardware", "processor_name", "versions"]


def hardware(device: torch.device) -> str:
    """What computes on `device`, in words."""
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"{platform.machine()} CPU, {os.cpu_count()} cores" if device.type == "cpu" else f"{platform.machine()} GPU"


def processor_name() -> str:
    """The model of the processor, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


def versions(*more: str) -> dict[str, str]:
    """Versions of Python and of the packages that decide a result, and of `more`."""
    others = ("torch", "torchvision", "numpy", "scikit-learn", *more)
    return {
        "homefold": __version__,
        "python": platform.python_version(),
        **{name: version(name) for name in others},
    }


@cache
def code_commit() -> str:
    """The commit of the git checkout that this code runs from, marked when files differ from it; empty elsewhere."""
    folder = Path(__file__).parents[1]

    def git(*words: str) -> str:
        done = subprocess.run(["git", "-C", str(folder), *words], capture_output=True, text=True, timeout=10)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        # A package that merely lies inside somebody's repository (a virtual environment, say) is not tracked by it.
        if not git("ls-files", "--error-unmatch", str(Path(__file__).resolve())):
            return ""
        commit = git("rev-parse", "HEAD")
        return f"{commit} with changes" if git("status", "--porcelain", "--", str(folder)) else commit
    except (OSError, subprocess.TimeoutExpired):
        return ""
