"""Adam."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import STEP_RULES, Memory, StepRule

__all__ = ["Adam"]

_SMALLEST_SCALE = 1e-8


@STEP_RULES.named("adam")
class Adam(StepRule):
    """Adam, without weight decay.

    Args:
        rate: step size.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of their squares.
    """

    def __init__(self, rate: float, beta1: float = 0.9, beta2: float = 0.999) -> None:
        self.rate, self.beta1, self.beta2 = rate, beta1, beta2

    @classmethod
    def of(cls, config: SearchConfig) -> Adam:
        return cls(config.rate)

    def memory(self, u: torch.Tensor) -> Memory:
        return torch.zeros_like(u), torch.zeros_like(u)

    def numbers(self, step: int) -> tuple[float, ...]:
        """The smallest scale, and the rate of the step; both with the corrections for a young mean."""
        correction = math.sqrt(1 - self.beta2 ** (step + 1))
        return _SMALLEST_SCALE * correction, -self.rate * correction / (1 - self.beta1 ** (step + 1))

    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        smallest, rate = numbers
        mean = (memory[0] * self.beta1).add_(gradient, alpha=1 - self.beta1)
        square = (memory[1] * self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        scale = square.sqrt().add_(smallest)
        if isinstance(rate, float):  # the same in one operation
            return torch.addcdiv(u, mean, scale, value=rate), (mean, square)
        return torch.addcdiv(u, mean * rate, scale), (mean, square)
