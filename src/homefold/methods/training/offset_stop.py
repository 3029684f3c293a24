"""The projection stopped some steps before or after n*, to see how much the choice of n* matters."""

from __future__ import annotations

from dataclasses import replace

import torch

from homefold.config.search import SearchConfig
from homefold.errors import ConfigError
from homefold.manifold import Manifold
from homefold.projection import Projection, project
from homefold.projection.rules.objective import cosine_distance, loss_and_gradient
from homefold.projection.rules.starts import starting_latents
from homefold.projection.rules.steps import step_rule, walk
from homefold.runtime.device import one_thread

__all__ = ["project_with_offset"]

_ROWS = 1024


def project_with_offset(
    manifold: Manifold, z: torch.Tensor, config: SearchConfig, *, seed: int, offset: int
) -> Projection:
    """The search from its one start, stopped `offset` steps after where the stopping rule would, within 0 and M.

    Args:
        manifold: G, continuous.
        z: `(n, d)` prepared features.
        config: with a single start.
        seed: of the start.
        offset: ε, negative for earlier.
    """
    if not manifold.is_continuous or config.starts != 1:
        raise ConfigError("stopping early or late needs a continuous manifold and a projection with a single start.")
    found = project(manifold, z, config, seed=seed)
    wanted = (found.iterations + offset).clamp(0, config.steps)
    walked = [
        _walk(manifold, rows, config, seed, steps)
        for rows, steps in zip(z.split(_ROWS), wanted.split(_ROWS), strict=True)
    ]
    latents = torch.cat(walked)
    with torch.no_grad():
        features = manifold.decode(latents)
        similarity = 1 - cosine_distance(features, z)
    return replace(found, features=features, latents=latents, similarity_after=similarity, iterations=wanted)


def _walk(manifold: Manifold, z: torch.Tensor, config: SearchConfig, seed: int, wanted: torch.Tensor) -> torch.Tensor:
    """The latent of each row after its own number of steps."""
    with torch.no_grad(), one_thread(z.device):
        u = starting_latents(config, manifold, z, seed)[:, 0]
        chosen = u.clone()
        steps = walk(step_rule(config), lambda u: loss_and_gradient(manifold.decode, u, z), u, int(wanted.max()))
        for step, (_, after) in enumerate(steps, 1):
            chosen = torch.where((wanted == step)[:, None], after, chosen)
    return chosen
