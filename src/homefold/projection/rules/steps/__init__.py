"""Step rules: from a latent and its gradient to the next latent, each row on its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.objective import Measure
from homefold.runtime.registry import Registry

__all__ = ["STEP_RULES", "Memory", "StepRule", "step_rule", "walk"]

Memory = tuple[torch.Tensor, ...]
"""What a rule remembers between steps: tensors whose shapes stay."""


class StepRule(ABC):
    """Moves latents `(n, k)`. It holds settings only: what it remembers is handed in and out, and never written to.

    So it runs step by step in Python, and in a CUDA graph whose tensors stay where they are.
    """

    @classmethod
    @abstractmethod
    def of(cls, config: SearchConfig) -> StepRule:
        """The rule with these settings."""

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


STEP_RULES: Registry[type[StepRule]] = Registry("step rule", __name__)


def step_rule(config: SearchConfig) -> StepRule:
    """The step rule that the settings name."""
    return STEP_RULES[config.step].of(config)


def walk(rule: StepRule, measure: Measure, u: torch.Tensor, steps: int) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """Take so many steps from `u: (n, k)`: the loss `(n,)` before each, and the latents after it."""
    memory = rule.memory(u)
    for step in range(steps):
        loss, gradient = measure(u)
        u, memory = rule.move(u, gradient, memory, rule.numbers(step))
        yield loss, u
