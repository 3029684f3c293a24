"""What Triton needs besides itself, and what is done where it is missing."""

from __future__ import annotations

import sysconfig

import pytest
import torch

from homefold import triton_ready
from homefold.features import gradient_step
from homefold.projection import ProjectionConfig, fused
from homefold.triton_ready import why_no_triton

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
    why_no_triton.cache_clear()
    yield monkeypatch
    why_no_triton.cache_clear()


def test_nothing_is_missing(machine):
    assert why_no_triton() == ""


def test_the_package_is_missing(machine):
    machine.setattr(triton_ready, "find_spec", lambda name: None)
    assert why_no_triton() == "Triton is not installed"


def test_the_compiler_is_missing(machine):
    machine.setattr(triton_ready.shutil, "which", lambda name: None)
    assert "install gcc or clang" in why_no_triton()


def test_a_compiler_may_be_named(machine):
    machine.setattr(triton_ready.shutil, "which", lambda name: name if name == "/opt/cc" else None)
    machine.setenv("CC", "/opt/cc")
    assert why_no_triton() == ""


@pytest.mark.parametrize("named", ["", "/opt/none", "ccache gcc"])
def test_a_named_compiler_must_be_there(machine, named):
    machine.setenv("CC", named)
    assert f"{named!r} is no program" in why_no_triton()


def test_the_headers_are_missing(machine, tmp_path):
    (tmp_path / "Python.h").unlink()
    assert f"{tmp_path} has none; install them (Debian and Ubuntu: python3." in why_no_triton()


def test_windows_brings_its_own(machine):
    machine.setattr(triton_ready.shutil, "which", lambda name: None)
    machine.setattr(triton_ready.sys, "platform", "win32")
    assert why_no_triton() == ""


def test_debians_own_scheme_is_not_asked(machine, tmp_path):
    machine.setattr(sysconfig, "get_default_scheme", lambda: "posix_local")
    machine.setattr(
        sysconfig, "get_paths", lambda scheme: {"include": str(tmp_path) if scheme == "posix_prefix" else ""}
    )
    assert why_no_triton() == ""


def test_without_a_compiler_nothing_is_compiled_unless_asked_for(machine):
    assert gradient_step.worth_compiling("auto", CUDA, 20_000)
    machine.setattr(triton_ready.shutil, "which", lambda name: None)
    why_no_triton.cache_clear()
    assert not gradient_step.worth_compiling("auto", CUDA, 20_000)
    assert gradient_step.worth_compiling("on", CUDA, 1)
    assert "C compiler" in fused.why_not_fused(torch.nn.Linear(2, 2), ProjectionConfig(), CUDA)
