"""Where the search for u* begins."""

from __future__ import annotations

from functools import cache

import torch

from homefold.manifold import Manifold
from homefold.projection.config import ProjectionConfig
from homefold.runtime.seeding import generator

__all__ = ["start_names", "starting_latents"]


def start_names(config: ProjectionConfig, manifold: Manifold) -> tuple[str, ...]:
    """What each start is called, in the order in which `starting_latents` lays them out."""
    names: list[str] = []
    if config.encoder_start and manifold.has_encoder:
        names.append("encoder")
    names += [f"nearest {i + 1}" for i in range(_nearest(config, manifold))]
    names += [f"random {i + 1}" for i in range(config.random_starts)]
    return tuple(names)


def _nearest(config: ProjectionConfig, manifold: Manifold) -> int:
    wanted = config.nearest_starts + int(config.encoder_start and not manifold.has_encoder)
    return min(wanted, len(manifold.bank_latents))


def starting_latents(config: ProjectionConfig, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
    """Latents to start from, `(n, starts, k)`, for `targets: (n, d)`.

    The random ones depend on `seed` alone and are the same for every sample, so that an answer does not depend on
    a sample's place in a batch.
    """
    n = len(targets)
    parts: list[torch.Tensor] = []
    if config.encoder_start and manifold.has_encoder:
        parts.append(manifold.encode(targets)[:, None])
    nearest = _nearest(config, manifold)
    if nearest:
        unit = torch.nn.functional.normalize(targets, dim=1)
        bank = torch.nn.functional.normalize(manifold.bank_features, dim=1)
        order = (unit @ bank.T).topk(nearest, dim=1).indices
        parts.append(manifold.bank_latents[order])
    if config.random_starts:
        drawn = _random_starts(config.random_starts, manifold.latent_dim, seed, targets.dtype, targets.device)
        parts.append(drawn.expand(n, -1, -1))
    return torch.cat(parts, dim=1)


@cache
def _random_starts(count: int, latent_dim: int, seed: int, dtype: torch.dtype, device: torch.device) -> torch.Tensor:
    """`(count, latent_dim)`, drawn on the CPU so that they are the same on every device.

    Remembered for good: a recorded search reads them where they lie.
    """
    return torch.randn(count, latent_dim, generator=generator(seed, "starts")).to(device, dtype)
