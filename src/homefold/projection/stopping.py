"""Stopping rules: which of the latents that a search passed through is u*.

A rule sees the search step by step and keeps only what it needs; its memory does not grow with the number of steps.
"""

from __future__ import annotations

from typing import Protocol

import torch

__all__ = ["Elbow", "Fixed", "StoppingRule", "elbow_index", "window_means"]


class StoppingRule(Protocol):
    """Watches a search over n rows and says where each should have stopped."""

    def reset(self, u: torch.Tensor) -> None:
        """Get ready for latents shaped like `u: (n, k)`, the starts."""

    def update(self, step: int, loss: torch.Tensor, after: torch.Tensor) -> None:
        """Step `step` measured `loss: (n,)` at the latents before it and moved them to `after`."""

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """u* `(n, k)`, and how many steps from the start it is, `(n,)`."""


def window_means(losses: torch.Tensor, window: int) -> torch.Tensor:
    """Means of all whole windows of `losses: (m, n)` along the first axis, added up in order: `(m − w + 1, n)`."""
    count = len(losses) - window + 1
    total = losses[:count]
    for offset in range(1, window):
        total = total + losses[offset : offset + count]
    return total / window


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
    smooth = window_means(losses, window)
    bend = smooth[2:] - 2 * smooth[1:-1] + smooth[:-2]
    best = torch.zeros_like(bend[0], dtype=torch.long)
    highest = bend[0]
    for index in range(1, len(bend)):
        better = bend[index] > highest
        highest = torch.where(better, bend[index], highest)
        best = torch.where(better, index, best)
    return best + window // 2 + 1


class Elbow:
    """Stop where the smoothed loss curve bends most; found while running.

    Algorithm 1 pairs the loss measured before step i with the latent after it, so u* is n* + 1 steps from the start.

    Args:
        window: odd number of losses that are averaged.
    """

    def __init__(self, window: int = 5) -> None:
        self.window = window

    def reset(self, u: torch.Tensor) -> None:
        self._losses: list[torch.Tensor] = []
        self._smooth: list[torch.Tensor] = []
        self._latents: list[torch.Tensor] = []
        self._highest = u.new_full((len(u),), -torch.inf)
        self._best = torch.zeros(len(u), dtype=torch.long, device=u.device)
        self._chosen = u.clone()

    def update(self, step: int, loss: torch.Tensor, after: torch.Tensor) -> None:
        half = self.window // 2
        self._losses = [*self._losses[1 - self.window :], loss] if self.window > 1 else [loss]
        self._latents = [*self._latents[-half - 1 :], after]
        if len(self._losses) < self.window:
            return
        self._smooth = [*self._smooth[-2:], window_means(torch.stack(self._losses), self.window)[0]]
        if len(self._smooth) < 3:
            return
        bend = self._smooth[2] - 2 * self._smooth[1] + self._smooth[0]
        better = bend > self._highest
        self._highest = torch.where(better, bend, self._highest)
        self._best = torch.where(better, step - half - 1, self._best)
        self._chosen = torch.where(better[:, None], self._latents[0], self._chosen)

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self._chosen, self._best + 1


class Fixed:
    """Take the latent after the last step."""

    def reset(self, u: torch.Tensor) -> None:
        self._last, self._steps = u, 0

    def update(self, step: int, loss: torch.Tensor, after: torch.Tensor) -> None:
        self._last, self._steps = after, step + 1

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        n = len(self._last)
        return self._last, torch.full((n,), self._steps, dtype=torch.long, device=self._last.device)
