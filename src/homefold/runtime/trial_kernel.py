"""The smallest kernel there is: building it shows whether Triton can build others."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

__all__ = ["build_and_run"]


@triton.jit
def _add_one(x):
    tl.store(x, tl.load(x) + 1)


def build_and_run() -> None:
    """On the current CUDA device; raises whatever Triton raises."""
    _add_one[(1,)](torch.zeros(1, device="cuda"))
