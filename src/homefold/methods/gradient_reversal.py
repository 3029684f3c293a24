"""Gradients turned around on their way back: one backward pass serves both sides of an adversarial game."""

from __future__ import annotations

import math
from typing import Any

import torch

__all__ = ["ramp", "reverse_gradient", "scale_gradient"]


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.scale * gradients[0], None


def scale_gradient(x: torch.Tensor, scale: float) -> torch.Tensor:
    """`x` as it is; on the way back its gradient is multiplied by `scale`."""
    scaled: torch.Tensor = _ScaledGradient.apply(x, scale)
    return scaled


def reverse_gradient(x: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
    """`x` as it is; what stands before it climbs, `weight` times, the loss that what stands behind it descends.

    >>> x = torch.ones(1, requires_grad=True)
    >>> reverse_gradient(3 * x, 0.5).sum().backward()
    >>> x.grad
    tensor([-1.5000])
    """
    return scale_gradient(x, -weight)


def ramp(progress: float) -> float:
    """2 / (1 + exp(-10 p)) - 1: how far the adversary's weight has risen at `progress` in [0, 1] of the training.

    >>> [round(ramp(p), 3) for p in (0.0, 0.1, 1.0)]
    [0.0, 0.462, 1.0]
    """
    return math.tanh(5 * progress)
