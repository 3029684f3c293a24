"""What every engine is given and what it returns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from homefold.projection.config import ProjectionConfig
from homefold.runtime.tiles import fill_tile

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


Engine = Callable[[Decoder, torch.Tensor, torch.Tensor, ProjectionConfig], Search]
