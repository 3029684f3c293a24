"""Which device, which precision, and what deterministic means there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from homefold.errors import ConfigError

__all__ = [
    "autocast",
    "deterministic_algorithms",
    "one_thread",
    "resolve_device",
    "resolve_precision",
]

_KINDS = ("cpu", "cuda", "mps")  # of devices that can be computed on

# cuBLAS reads this when its first handle is made; with it unset, deterministic matrix products are refused.
_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def resolve_device(name: str | torch.device = "auto") -> torch.device:
    """The device called `name`; `auto` takes CUDA, else Apple's MPS, else the CPU.

    >>> resolve_device("cpu")
    device(type='cpu')
    """
    if name == "auto":
        if torch.cuda.is_available():
            return torch.device("cuda")
        return torch.device("mps" if torch.backends.mps.is_available() else "cpu")
    try:
        device = torch.device(name)
    except (RuntimeError, TypeError):
        device = None
    if device is None or device.type not in _KINDS:
        raise ConfigError(f"there is no device {str(name)!r} to compute on; choose auto, cpu, cuda, cuda:N or mps.")
    found = getattr(torch, device.type).device_count()
    if (device.index or 0) >= found:
        raise ConfigError(
            f"device {name} is not there: torch sees {found} {device.type.upper()} devices; choose cpu, or auto for "
            "the best that there is."
        )
    return device


def resolve_precision(precision: str, device: torch.device) -> torch.dtype:
    """The type that training computes in: bfloat16 on CUDA where the chip has it, float32 elsewhere, when `auto`."""
    if precision == "auto":
        fast = device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False)
        return torch.bfloat16 if fast else torch.float32
    if precision == "float16" and device.type == "cpu":
        raise ConfigError("float16 training needs a GPU; choose bfloat16 or float32 on the CPU.")
    return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[precision]


def autocast(device: torch.device, dtype: torch.dtype) -> torch.autocast:
    """Autocast to `dtype` on `device`; does nothing for float32."""
    return torch.autocast(device.type, dtype=dtype, enabled=dtype != torch.float32)


@contextmanager
def deterministic_algorithms(enabled: bool) -> Iterator[None]:
    """Inside the block torch uses only algorithms that give the same bytes every time, where `enabled`."""
    if not enabled:
        yield
        return
    os.environ.setdefault(_CUBLAS, ":4096:8")
    before = torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(before)
        torch.backends.cudnn.benchmark = benchmark


@contextmanager
def one_thread(device: torch.device) -> Iterator[None]:
    """Inside the block, work on the CPU uses one thread: small matrices lose more to waiting than they gain.

    It also makes what is computed there independent of how many cores the machine has.
    """
    before = torch.get_num_threads()
    if device.type != "cpu" or before == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
