"""Starts from the manifold's most similar known points."""

from __future__ import annotations

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.projection.rules.starts import STARTS

__all__ = ["NearestStarts"]


@STARTS.named("nearest")
class NearestStarts:
    """Latents of the most similar known points; one of them stands in for an encoder where there is none."""

    def names(self, config: SearchConfig, manifold: Manifold) -> tuple[str, ...]:
        wanted = config.nearest_starts + int(config.encoder_start and not manifold.has_encoder)
        return tuple(f"nearest {i + 1}" for i in range(min(wanted, len(manifold.bank_latents))))

    def latents(self, count: int, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
        unit = torch.nn.functional.normalize(targets, dim=1)
        bank = torch.nn.functional.normalize(manifold.bank_features, dim=1)
        return manifold.bank_latents[(unit @ bank.T).topk(count, dim=1).indices]
