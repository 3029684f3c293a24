"""No stopping before the last step."""

from __future__ import annotations

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import Memory
from homefold.projection.rules.stopping import STOPPING_RULES, StoppingRule

__all__ = ["Fixed"]


@STOPPING_RULES.named("fixed")
class Fixed(StoppingRule):
    """Take the latent after the last step."""

    @classmethod
    def of(cls, config: SearchConfig) -> Fixed:
        return cls()

    def result(self, last: torch.Tensor, steps: int, memory: Memory) -> tuple[torch.Tensor, torch.Tensor]:
        return last, torch.full((last.shape[0],), steps, dtype=torch.long, device=last.device)
