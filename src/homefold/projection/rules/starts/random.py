"""Starts drawn at random."""

from __future__ import annotations

from functools import cache

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.projection.rules.starts import STARTS
from homefold.runtime.seeding import generator

__all__ = ["RandomStarts"]


@STARTS.named("random")
class RandomStarts:
    """Latents from N(0, I). They depend on the seed alone and are the same for every sample.

    So an answer does not depend on a sample's place in a batch.
    """

    def names(self, config: SearchConfig, manifold: Manifold) -> tuple[str, ...]:
        return tuple(f"random {i + 1}" for i in range(config.random_starts))

    def latents(self, count: int, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
        drawn = _drawn(count, manifold.latent_dim, seed, targets.dtype, targets.device)
        return drawn.expand(targets.shape[0], -1, -1)


@cache
def _drawn(count: int, latent_dim: int, seed: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`(count, latent_dim)`, drawn on the CPU so that they are the same on every device.

    Remembered for good: a recorded search reads them where they lie.
    """
    return torch.randn(count, latent_dim, generator=generator(seed, "starts")).to(device, dtype)
