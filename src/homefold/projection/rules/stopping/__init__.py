"""Stopping rules: which of the latents that a search passed through is u*.

A rule sees the search step by step and keeps only what it needs; its memory does not grow with the number of steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import Memory
from homefold.runtime.registry import Registry

__all__ = ["STOPPING_RULES", "StoppingRule", "stopping_rule"]


class StoppingRule(ABC):
    """Watches a search over n rows and says where each should have stopped.

    It holds settings only, as a `StepRule` does: what it remembers is handed in and out, and never written to.
    """

    @classmethod
    @abstractmethod
    def of(cls, config: SearchConfig) -> StoppingRule:
        """The rule with these settings."""

    def memory(self, u: torch.Tensor) -> Memory:
        """What it remembers before the first step from `u: (n, k)`; nothing unless a rule says so."""
        return ()

    def watch(self, step: int | torch.Tensor, loss: torch.Tensor, after: torch.Tensor, memory: Memory) -> Memory:
        """What it remembers once a step measured `loss: (n,)` before it and moved the latents to `after: (n, k)`.

        Args:
            step: its number from 0, also as a tensor `(1,)`, so that nothing may branch on it.
            loss: at the latents before the step.
            after: the latents after it.
            memory: from the step before.
        """
        return memory

    @abstractmethod
    def result(self, last: torch.Tensor, steps: int, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        """u* `(n, k)` and how many steps from the start it is, `(n,)`, after `steps` steps that led to `last`."""


STOPPING_RULES: Registry[type[StoppingRule]] = Registry("stopping rule", __name__)


def stopping_rule(config: SearchConfig) -> StoppingRule:
    """The stopping rule that the settings name."""
    return STOPPING_RULES[config.stop].of(config)
