"""Plain gradient descent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import STEP_RULES, Memory, StepRule

__all__ = ["Gradient"]


@STEP_RULES.named("gradient")
class Gradient(StepRule):
    """Plain gradient descent, as Algorithm 1 prints it: u ← u − β ∇L_S.

    Args:
        rate: β.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate

    @classmethod
    def of(cls, config: SearchConfig) -> Gradient:
        return cls(config.rate)

    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        return u - self.rate * gradient, ()
