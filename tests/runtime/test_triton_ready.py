"""What Triton needs besides itself, and what is done where it is missing."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from contextlib import nullcontext

import pytest
import torch

from homefold.config.search import SearchConfig
from homefold.features import gradient_step
from homefold.projection.engines import fused
from homefold.runtime import triton_ready
from homefold.runtime.triton_ready import why_no_triton

pytestmark = pytest.mark.slow

CUDA = torch.device("cuda")


@pytest.fixture
def machine(monkeypatch, tmp_path):
    """A machine with Triton, gcc and Python's headers, from which things can be taken away."""
    monkeypatch.setattr(triton_ready, "find_spec", lambda name: object())
    monkeypatch.setattr(triton_ready.sys, "platform", "linux")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setattr(triton_ready.shutil, "which", lambda name: "/usr/bin/gcc" if name == "gcc" else None)
    (tmp_path / "Python.h").touch()
    monkeypatch.setattr(sysconfig, "get_paths", lambda scheme: {"include": str(tmp_path)})
    monkeypatch.setattr(triton_ready, "_why_no_build", lambda device: "")
    why_no_triton.cache_clear()
    yield monkeypatch
    why_no_triton.cache_clear()


def test_nothing_is_missing(machine):
    assert why_no_triton(CUDA) == ""


def test_the_package_is_missing(machine):
    machine.setattr(triton_ready, "find_spec", lambda name: None)
    assert why_no_triton(CUDA) == "Triton is not installed"


def test_the_compiler_is_missing(machine):
    machine.setattr(triton_ready.shutil, "which", lambda name: None)
    assert "install gcc or clang" in why_no_triton(CUDA)


def test_a_compiler_may_be_named(machine):
    machine.setattr(triton_ready.shutil, "which", lambda name: name if name == "/opt/cc" else None)
    machine.setenv("CC", "/opt/cc")
    assert why_no_triton(CUDA) == ""


@pytest.mark.parametrize("named", ["", "/opt/none", "ccache gcc"])
def test_a_named_compiler_must_be_there(machine, named):
    machine.setenv("CC", named)
    assert f"{named!r} is no program" in why_no_triton(CUDA)


def test_the_headers_are_missing(machine, tmp_path):
    (tmp_path / "Python.h").unlink()
    assert f"{tmp_path} has none; install them (Debian and Ubuntu: python3." in why_no_triton(CUDA)


def test_windows_brings_its_own(machine):
    machine.setattr(triton_ready.shutil, "which", lambda name: None)
    machine.setattr(triton_ready.sys, "platform", "win32")
    assert why_no_triton(CUDA) == ""


def test_debians_own_scheme_is_not_asked(machine, tmp_path):
    machine.setattr(sysconfig, "get_default_scheme", lambda: "posix_local")
    machine.setattr(
        sysconfig, "get_paths", lambda scheme: {"include": str(tmp_path) if scheme == "posix_prefix" else ""}
    )
    assert why_no_triton(CUDA) == ""


def test_without_a_compiler_nothing_is_compiled_unless_asked_for(machine):
    assert gradient_step.worth_compiling("auto", CUDA, 20_000)
    machine.setattr(triton_ready.shutil, "which", lambda name: None)
    why_no_triton.cache_clear()
    assert not gradient_step.worth_compiling("auto", CUDA, 20_000)
    assert gradient_step.worth_compiling("on", CUDA, 1)
    assert "C compiler" in fused.FUSED.why_not(torch.nn.Linear(2, 2), SearchConfig(), CUDA)


def _failing(failure: Exception):
    def build_and_run():
        raise failure

    return build_and_run


@pytest.fixture
def gpu(machine):
    """The machine has a GPU, as far as torch says, and the first kernel is a function of the test's."""
    trial_kernel = pytest.importorskip("homefold.runtime.trial_kernel", reason="needs Triton")
    machine.undo()
    machine.setattr(torch.cuda, "is_available", lambda: True)
    machine.setattr(torch.cuda, "device", nullcontext)
    return lambda build: machine.setattr(trial_kernel, "build_and_run", build)


@pytest.mark.parametrize("platform", ["linux", "win32"])
def test_where_nothing_is_missing_the_first_kernel_decides_on_each_device(machine, platform):
    machine.setattr(triton_ready.sys, "platform", platform)
    machine.setattr(triton_ready, "_why_no_build", lambda device: f"not on {device}")
    assert why_no_triton(torch.device("cuda:0")) == "not on cuda:0"
    assert why_no_triton(torch.device("cuda:1")) == "not on cuda:1"


def test_a_first_kernel_is_built(gpu):
    built = []
    gpu(lambda: built.append(1))
    assert triton_ready._why_no_build(CUDA) == ""
    assert built == [1]


def test_why_it_cannot_be_built_is_said_in_a_line(gpu):
    gpu(_failing(OSError("no room left\nin the folder")))
    assert triton_ready._why_no_build(CUDA) == "Triton cannot build a kernel here (OSError: no room left)"


def test_a_full_device_is_no_fault_of_triton(gpu):
    gpu(_failing(torch.OutOfMemoryError("full")))
    with pytest.raises(torch.OutOfMemoryError):
        triton_ready._why_no_build(CUDA)


_WITHOUT_KERNELS = """
import torch
from homefold.manifold.base import mlp
from homefold.config.search import SearchConfig
from homefold.projection.engines import ENGINES, choose_engine
from homefold.style.model import kernel_fits

device = torch.device("cuda")
decode = mlp(32, 128, 128, 256).to(device).requires_grad_(False)
targets, starts = torch.randn(40, 256, device=device), torch.randn(40, 2, 32, device=device)
config = SearchConfig(steps=10)
why = ENGINES["fused"].why_not(decode, config, device)
assert why.startswith("Triton cannot build a kernel here ("), why
assert choose_engine(decode, config, device) == "compiled"
with torch.no_grad():
    found = ENGINES["compiled"].run(decode, targets, starts, config)
    expected = ENGINES["batched"].run(decode, targets, starts, config)
torch.testing.assert_close(found.after, expected.after, atol=5e-3, rtol=0)
assert not kernel_fits(torch.ones(2, 8, 4, 4, device=device).to(memory_format=torch.channels_last))
"""


@pytest.mark.gpu
@pytest.mark.parametrize("fault", ["compiler", "folder"])
def test_where_a_build_fails_kernels_are_done_without(fault, tmp_path):
    (tmp_path / "file").touch()
    faults = {
        "compiler": {"CC": "false", "TRITON_CACHE_DIR": str(tmp_path / "cache")},
        "folder": {"TRITON_CACHE_DIR": str(tmp_path / "file" / "cache")},
    }
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_KERNELS],
        env={**os.environ, **faults[fault]},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
