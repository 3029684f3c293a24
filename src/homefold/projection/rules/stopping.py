"""Stopping rules: which of the latents that a search passed through is u*.

A rule sees the search step by step and keeps only what it needs; its memory does not grow with the number of steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import Memory
from homefold.runtime.registry import Registry

__all__ = ["STOPPING_RULES", "Elbow", "Fixed", "StoppingRule", "elbow_index", "stopping_rule"]


class StoppingRule(ABC):
    """Watches a search over n rows and says where each should have stopped.

    It holds settings only, as a `StepRule` does: what it remembers is handed in and out, and never written to.
    """

    def __init__(self, config: SearchConfig) -> None:
        self.window = config.window

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


STOPPING_RULES: Registry[type[StoppingRule]] = Registry("stopping rule")


def stopping_rule(config: SearchConfig) -> StoppingRule:
    """The stopping rule that the settings name."""
    return STOPPING_RULES[config.stop](config)


@STOPPING_RULES.named("fixed")
class Fixed(StoppingRule):
    """Take the latent after the last step."""

    def result(self, last: torch.Tensor, steps: int, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        return last, torch.full((last.shape[0],), steps, dtype=torch.long, device=last.device)


def _mean(losses: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean of tensors, added up in order."""
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total / len(losses)


def elbow_index(losses: torch.Tensor, window: int = 5) -> torch.Tensor:
    """n* = argmax of the centred second difference of the window-smoothed curve, an index into `losses`.

    The window is centred and used only where it fits whole; of equal bends the first counts. This is the
    store-everything reference that `Elbow` equals without storing the curve.

    Args:
        losses: `(m, n)`: one curve a column, m ≥ window + 2.
        window: odd number of losses that are averaged.

    Returns:
        `(n,)` indices.

    >>> curve = torch.tensor([9.0, 7, 5, 3, 1, 1, 1, 1, 1])[:, None]
    >>> elbow_index(curve, window=1)
    tensor([4])
    """
    count = len(losses) - window + 1
    smooth = _mean([losses[offset : offset + count] for offset in range(window)])
    bend = smooth[2:] - 2 * smooth[1:-1] + smooth[:-2]
    best = torch.zeros_like(bend[0], dtype=torch.long)
    highest = bend[0]
    for index in range(1, len(bend)):
        better = bend[index] > highest
        highest = torch.where(better, bend[index], highest)
        best = torch.where(better, index, best)
    return best + window // 2 + 1


@STOPPING_RULES.named("elbow")
class Elbow(StoppingRule):
    """Stop where the smoothed loss curve bends most; found while running.

    Algorithm 1 pairs the loss measured before step i with the latent after it, so u* is n* + 1 steps from the start.
    """

    def memory(self, u: torch.Tensor) -> Memory:
        """The last losses and latents, the last two smoothed losses, the sharpest bend, steps to u*, and u*.

        What is not yet known is NaN: a bend that depends on it is never the sharpest.
        """
        n = u.shape[0]
        return (
            u.new_full((self.window, n), torch.nan),
            u.new_zeros(self.window // 2 + 2, *u.shape),
            u.new_full((n,), torch.nan),
            u.new_full((n,), torch.nan),
            u.new_full((n,), -torch.inf),
            torch.ones(n, dtype=torch.long, device=u.device),
            u.clone(),
        )

    def watch(self, step: int | torch.Tensor, loss: torch.Tensor, after: torch.Tensor, memory: Memory) -> Memory:
        losses, latents, older, newer, sharpest, taken, chosen = memory
        losses = torch.cat([losses[1:], loss[None]])
        latents = torch.cat([latents[1:], after[None]])
        smooth = _mean(losses.unbind())
        bend = smooth - 2 * newer + older
        better = bend > sharpest
        sharpest = torch.where(better, bend, sharpest)
        taken = torch.where(better, step - self.window // 2, taken)
        return losses, latents, newer, smooth, sharpest, taken, torch.where(better[:, None], latents[0], chosen)

    def result(self, last: torch.Tensor, steps: int, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        *_, taken, chosen = memory
        return chosen, taken
