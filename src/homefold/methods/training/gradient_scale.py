"""How strongly a loss reaches what stands before a point of the network, and how that rises during training."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["ramp", "scale_gradient"]


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.scale * gradients[0], None


def scale_gradient(x: torch.Tensor, scale: float) -> torch.Tensor:
    """`x` as it is; on the way back its gradient is multiplied by `scale`.

    >>> x = torch.ones(1, requires_grad=True)
    >>> (3 * scale_gradient(x, 0.5)).sum().backward()
    >>> x.grad
    tensor([1.5000])
    """
    scaled: torch.Tensor = _ScaledGradient.apply(x, scale)
    return scaled


def ramp(progress: float) -> float:
    """2 / (1 + exp(-10 p)) - 1: how far an adversary's weight has risen at `progress` p in [0, 1] of the training.

    >>> [round(ramp(p), 3) for p in (0.0, 0.1, 1.0)]
    [0.0, 0.462, 1.0]
    """
    return math.tanh(5 * progress)
