"""Where the search for u* begins: starts of several kinds, one after the other."""

from __future__ import annotations

from functools import cache

import torch
from torch.nn.functional import normalize

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.runtime.seeding import generator

__all__ = ["start_names", "starting_latents"]


def _nearest_count(config: SearchConfig, manifold: Manifold) -> int:
    """How many known points are started from; one of them stands in for an encoder where there is none."""
    wanted = config.nearest_starts + int(config.encoder_start and not manifold.has_encoder)
    return min(wanted, len(manifold.bank_latents))


def start_names(config: SearchConfig, manifold: Manifold) -> tuple[str, ...]:
    """What each start is called, in the order in which `starting_latents` lays them out."""
    encoder = ("encoder",) if config.encoder_start and manifold.has_encoder else ()
    nearest = (f"nearest {i + 1}" for i in range(_nearest_count(config, manifold)))
    return *encoder, *nearest, *(f"random {i + 1}" for i in range(config.random_starts))


def starting_latents(config: SearchConfig, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
    """Latents to start from, `(n, starts, k)`, for `targets: (n, d)`, each row on its own.

    First what the encoder proposes, then the latents of the most similar known points, then draws from N(0, I). These
    depend on the seed alone and are the same for every sample, so an answer does not depend on a place in a batch.
    """
    parts = []
    if config.encoder_start and manifold.has_encoder:
        parts.append(manifold.encode(targets)[:, None])
    if nearest := _nearest_count(config, manifold):
        similarity = normalize(targets, dim=1) @ normalize(manifold.bank_features, dim=1).T
        parts.append(manifold.bank_latents[similarity.topk(nearest, dim=1).indices])
    if config.random_starts:
        drawn = _drawn(config.random_starts, manifold.latent_dim, seed, targets.dtype, targets.device)
        parts.append(drawn.expand(targets.shape[0], -1, -1))
    return torch.cat(parts, dim=1)


@cache
def _drawn(count: int, latent_dim: int, seed: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`(count, latent_dim)`, drawn on the CPU so that they are the same on every device.

    Remembered for good: a captured search reads them where they lie.
    """
    return torch.randn(count, latent_dim, generator=generator(seed, "starts")).to(device, dtype)
