"""What every engine is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from homefold.projection.config import ProjectionConfig
from homefold.tiles import fill_tile

__all__ = ["Decoder", "Engine", "Search"]

Decoder = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class Search:
    """The ends of n × s searches.

    Args:
        latents: u* `(n, s, k)`.
        steps: `(n, s)` from the start to u*.
        before: `(n, s)` L_S at the start.
        after: `(n, s)` L_S at u*.
    """

    latents: torch.Tensor
    steps: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor

    def filled(self, size: int) -> Search:
        """The same with its last sample repeated until there are `size`."""
        return Search(*(fill_tile(x, size) for x in (self.latents, self.steps, self.before, self.after)))

    def with_winner(self, start: torch.Tensor, later: Search) -> Search:
        """The same, with one start of each sample searched further.

        Args:
            start: `(n,)` which start went on.
            later: its search, `(n, 1)`.
        """
        latents, steps, after = self.latents.clone(), self.steps.clone(), torch.full_like(self.after, torch.inf)
        pick = torch.arange(len(start), device=start.device)
        latents[pick, start], after[pick, start] = later.latents[:, 0], later.after[:, 0]
        steps[pick, start] += later.steps[:, 0]
        return Search(latents, steps, self.before, after)


Engine = Callable[[Decoder, torch.Tensor, torch.Tensor, ProjectionConfig], Search]
