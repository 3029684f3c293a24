"""Step rules: from a latent and its gradient to the next latent, each row on its own."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.objective import Measure
from homefold.runtime.registry import Registry

__all__ = ["STEP_RULES", "Adam", "Gradient", "Memory", "Normalised", "StepRule", "step_rule", "walk"]

Memory = tuple[torch.Tensor, ...]
"""What a rule remembers between steps: tensors whose shapes stay."""

_SMALLEST_LENGTH = 1e-12
_SMALLEST_SCALE = 1e-8
_BETA1, _BETA2 = 0.9, 0.999


class StepRule(ABC):
    """Moves latents `(n, k)`. It holds settings only: what it remembers is handed in and out, and never written to.

    So it runs step by step in Python, and in a CUDA graph whose tensors stay where they are.
    """

    def __init__(self, config: SearchConfig) -> None:
        self.rate, self.momentum = config.rate, config.momentum

    def memory(self, u: torch.Tensor) -> Memory:
        """What it remembers before the first step from `u: (n, k)`; nothing unless a rule says so."""
        return ()

    def numbers(self, step: int) -> tuple[float, ...]:
        """What depends on nothing but the step's number, from 0; nothing unless a rule says so."""
        return ()

    @abstractmethod
    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        """The next latents, and what is remembered then.

        Args:
            u: `(n, k)`.
            gradient: of the loss at u.
            memory: from the step before.
            numbers: of this step, as floats or as tensors `(1,)`.
        """


STEP_RULES: Registry[type[StepRule]] = Registry("step rule")


def step_rule(config: SearchConfig) -> StepRule:
    """The step rule that the settings name."""
    return STEP_RULES[config.step](config)


def walk(rule: StepRule, measure: Measure, u: torch.Tensor, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Take so many steps from `u: (n, k)`: the loss `(n,)` before each, and the latents after it."""
    memory = rule.memory(u)
    for step in range(steps):
        loss, gradient = measure(u)
        u, memory = rule.move(u, gradient, memory, rule.numbers(step))
        yield loss, u


@STEP_RULES.named("gradient")
class Gradient(StepRule):
    """Plain gradient descent, as Algorithm 1 prints it: u ← u − β ∇L_S."""

    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        return u - self.rate * gradient, ()


@STEP_RULES.named("normalised")
class Normalised(StepRule):
    """Steps of a constant length relative to u, with Nesterov momentum, as the authors ran it.

    g = ‖u‖ ∇L_S / ‖∇L_S‖;  v ← μ v + g;  u ← u − β (g + μ v). The loss curve of such steps falls steadily and then
    flattens, where an elbow means something; a plain gradient's curve bends most at its first steps.
    """

    def memory(self, u: torch.Tensor) -> Memory:
        return (torch.zeros_like(u),)

    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        length = gradient.square().sum(1, keepdim=True).sqrt().clamp_min(_SMALLEST_LENGTH)
        relative = gradient * (u.square().sum(1, keepdim=True).sqrt() / length)
        velocity = self.momentum * memory[0] + relative
        return u - self.rate * (relative + self.momentum * velocity), (velocity,)


@STEP_RULES.named("adam")
class Adam(StepRule):
    """Adam, without weight decay."""

    def memory(self, u: torch.Tensor) -> Memory:
        return torch.zeros_like(u), torch.zeros_like(u)

    def numbers(self, step: int) -> tuple[float, ...]:
        """The smallest scale, and the rate of the step; both with the corrections for a young mean."""
        correction = math.sqrt(1 - _BETA2 ** (step + 1))
        return _SMALLEST_SCALE * correction, -self.rate * correction / (1 - _BETA1 ** (step + 1))

    def move(
        self, u: torch.Tensor, gradient: torch.Tensor, memory: Memory, numbers: Sequence[Any]
    ) -> tuple[torch.Tensor, Memory]:
        smallest, rate = numbers
        mean = (memory[0] * _BETA1).add_(gradient, alpha=1 - _BETA1)
        square = (memory[1] * _BETA2).addcmul_(gradient, gradient, value=1 - _BETA2)
        scale = square.sqrt().add_(smallest)
        if isinstance(rate, float):  # the same in one operation
            return torch.addcdiv(u, mean, scale, value=rate), (mean, square)
        return torch.addcdiv(u, mean * rate, scale), (mean, square)
