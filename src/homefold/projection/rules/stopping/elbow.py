"""The elbow of the loss curve."""

from __future__ import annotations

import torch

from homefold.projection.config import ProjectionConfig
from homefold.projection.rules.steps import Memory
from homefold.projection.rules.stopping import STOPPING_RULES

__all__ = ["Elbow", "elbow_index"]


def _window_means(losses: torch.Tensor, window: int) -> torch.Tensor:
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
    smooth = _window_means(losses, window)
    bend = smooth[2:] - 2 * smooth[1:-1] + smooth[:-2]
    best = torch.zeros_like(bend[0], dtype=torch.long)
    highest = bend[0]
    for index in range(1, len(bend)):
        better = bend[index] > highest
        highest = torch.where(better, bend[index], highest)
        best = torch.where(better, index, best)
    return best + window // 2 + 1


@STOPPING_RULES.named("elbow")
class Elbow:
    """Stop where the smoothed loss curve bends most; found while running.

    Algorithm 1 pairs the loss measured before step i with the latent after it, so u* is n* + 1 steps from the start.

    Args:
        window: odd number of losses that are averaged.
    """

    def __init__(self, window: int = 5) -> None:
        self.window = window

    @classmethod
    def of(cls, config: ProjectionConfig) -> Elbow:
        return cls(config.window)

    def memory(self, u: torch.Tensor) -> Memory:
        """The last losses and latents, the last two smoothed losses, the sharpest bend, and u* with its steps."""
        n = len(u)
        return (
            u.new_zeros(self.window, n),
            u.new_zeros(self.window // 2 + 2, *u.shape),
            u.new_zeros(n),
            u.new_zeros(n),
            u.new_full((n,), -torch.inf),
            torch.ones(n, dtype=torch.long, device=u.device),
            u.clone(),
        )

    def watch(self, step: int | torch.Tensor, loss: torch.Tensor, after: torch.Tensor, memory: Memory) -> Memory:
        losses, latents, older, newer, sharpest, taken, chosen = memory
        losses = torch.cat([losses[1:], loss[None]])
        latents = torch.cat([latents[1:], after[None]])
        smooth = _window_means(losses, self.window)[0]
        bend = smooth - 2 * newer + older
        # Before, the window was not yet full three times.
        better = (bend > sharpest) & (step >= self.window + 1)
        sharpest = torch.where(better, bend, sharpest)
        taken = torch.where(better, step - self.window // 2, taken)
        return losses, latents, newer, smooth, sharpest, taken, torch.where(better[:, None], latents[0], chosen)

    def result(self, last: torch.Tensor, steps: int, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        *_, taken, chosen = memory
        return chosen, taken
