"""Steps of a constant relative length."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import STEP_RULES, Memory, StepRule

__all__ = ["Normalised"]

_SMALLEST = 1e-12


@STEP_RULES.named("normalised")
class Normalised(StepRule):
    """Steps of a constant length relative to u, with Nesterov momentum, as the authors ran it.

    g = ‖u‖ ∇L_S / ‖∇L_S‖;  v ← μ v + g;  u ← u − β (g + μ v). The loss curve of such steps falls steadily and then
    flattens, where an elbow means something; a plain gradient's curve bends most at its first steps.

    Args:
        rate: β, the length of a step without momentum, as a fraction of ‖u‖.
        momentum: μ.
    """

    def __init__(self, rate: float, momentum: float = 0.9) -> None:
        self.rate, self.momentum = rate, momentum

    @classmethod
    def of(cls, config: SearchConfig) -> Normalised:
        return cls(config.rate, config.momentum)

    def memory(self, u: torch.Tensor) -> Memory:
        return (torch.zeros_like(u),)

    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        length = gradient.square().sum(1, keepdim=True).sqrt().clamp_min(_SMALLEST)
        relative = gradient * (u.square().sum(1, keepdim=True).sqrt() / length)
        velocity = self.momentum * memory[0] + relative
        return u - self.rate * (relative + self.momentum * velocity), (velocity,)
