"""The projection of a whole batch of features, each independent of the others."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch

from homefold.device import one_thread
from homefold.manifold import Manifold
from homefold.progress import ProgressReporter, SilentReporter
from homefold.projection.config import ProjectionConfig
from homefold.projection.engines import ENGINES, loss_and_gradient
from homefold.projection.objective import cosine_distance
from homefold.projection.starts import start_names, starting_latents
from homefold.tiles import fill_tile, steady_tile

__all__ = ["Projection", "chosen_engine", "preferred_tile", "project"]

_TILE_ROWS = {"cpu": 16, "cuda": 4096, "mps": 256}


@dataclass(frozen=True)
class Projection:
    """What the search found for each of n samples.

    Args:
        features: `(n, d)` the point of the source manifold that stands for the sample, G(u*).
        latents: `(n, k)` u*.
        similarity_before: `(n,)` cosine of the sample to where the winning start began.
        similarity_after: `(n,)` cosine of the sample to `features`.
        iterations: `(n,)` steps from the winning start to u*.
        start: `(n,)` index of the winning start.
        start_names: what the starts are called.
    """

    features: torch.Tensor
    latents: torch.Tensor
    similarity_before: torch.Tensor
    similarity_after: torch.Tensor
    iterations: torch.Tensor
    start: torch.Tensor
    start_names: tuple[str, ...]

    def cpu(self) -> Projection:
        """The same, with every tensor on the CPU."""
        moved = {name: getattr(self, name).cpu() for name in _TENSORS}
        return Projection(**moved, start_names=self.start_names)

    @staticmethod
    def concatenate(parts: list[Projection]) -> Projection:
        """One after the other."""
        joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in _TENSORS}
        return Projection(**joined, start_names=parts[0].start_names)


_TENSORS = tuple(field.name for field in fields(Projection) if field.name != "start_names")


def chosen_engine(config: ProjectionConfig) -> str:
    """The engine that will run."""
    return "batched" if config.engine == "auto" else config.engine


def preferred_tile(config: ProjectionConfig, device: torch.device) -> int:
    """Samples in a tile: what the settings say, or what suits the device."""
    return config.tile or _TILE_ROWS.get(device.type, 16)


def _tile(manifold: Manifold, config: ProjectionConfig, device: torch.device) -> int:
    """The preferred tile, or single samples where this machine's kernels treat some rows of it differently."""

    def one_step(z: torch.Tensor) -> torch.Tensor:
        """Everything that a step computes, row by row, before a small step size can hide a difference."""
        if not manifold.is_continuous:
            return manifold.encode(z)
        starts = starting_latents(config, manifold, z, seed=0)
        n, s, k = starts.shape
        rows = z.repeat_interleave(s, dim=0)
        loss, gradient = loss_and_gradient(manifold.decode, starts.reshape(n * s, k), rows)
        parts = (starts, loss.view(n, s, 1), gradient.view(n, s, k))
        return torch.cat(parts, dim=2).flatten(1)

    starts = (config.encoder_start, config.random_starts, config.nearest_starts)
    return steady_tile(manifold, starts, one_step, (manifold.feature_dim,), preferred_tile(config, device), device)


def project(
    manifold: Manifold,
    z: torch.Tensor,
    config: ProjectionConfig,
    *,
    seed: int = 0,
    reporter: ProgressReporter | None = None,
) -> Projection:
    """Bring every row of `z: (n, d)` to the manifold: search u for the highest cosine of G(u) to it.

    The samples are computed in tiles of a fixed size, the last one filled up with copies, because matrix kernels sum
    in another order for another number of rows: so an answer depends on the sample and the seed alone.

    Args:
        manifold: G; one that collapsed is refused.
        z: features, on the manifold's device.
        config: starts, step rule, stopping rule, engine.
        seed: of the random starts.
        reporter: shows a bar when the search is long.
    """
    manifold.require_usable()
    reporter = reporter or SilentReporter()
    parts = []
    with torch.no_grad(), one_thread(z.device), reporter.task("Projection", total=len(z)) as bar:
        size = _tile(manifold, config, z.device)
        for tile in z.split(size) if len(z) else (z,):
            part = _project_tile(manifold, fill_tile(tile, size), config, seed)
            parts.append(_first(part, len(tile)))
            bar.advance(len(tile))
    return Projection.concatenate(parts)


def _first(part: Projection, n: int) -> Projection:
    return Projection(**{name: getattr(part, name)[:n] for name in _TENSORS}, start_names=part.start_names)


def _project_tile(manifold: Manifold, z: torch.Tensor, config: ProjectionConfig, seed: int) -> Projection:
    if not manifold.is_continuous:
        return _nearest_point(manifold, z)
    starts = starting_latents(config, manifold, z, seed)
    n, s, k = starts.shape
    latents, steps = ENGINES[chosen_engine(config)](manifold.decode, z, starts, config)
    rows = z.repeat_interleave(s, dim=0)
    decoded = manifold.decode(latents.reshape(n * s, k))
    after = cosine_distance(decoded, rows).view(n, s)
    before = cosine_distance(manifold.decode(starts.reshape(n * s, k)), rows).view(n, s)
    won = after.nan_to_num(nan=torch.inf).argmin(dim=1)
    pick = torch.arange(n, device=z.device)
    return Projection(
        features=decoded.view(n, s, z.shape[1])[pick, won],
        latents=latents[pick, won],
        similarity_before=1 - before[pick, won],
        similarity_after=1 - after[pick, won],
        iterations=steps[pick, won],
        start=won,
        start_names=start_names(config, manifold),
    )


def _nearest_point(manifold: Manifold, z: torch.Tensor) -> Projection:
    latents = manifold.encode(z)
    features = manifold.decode(latents)
    similarity = 1 - cosine_distance(features, z)
    zeros = torch.zeros(len(z), dtype=torch.long, device=z.device)
    return Projection(features, latents, similarity, similarity, zeros, zeros, ("nearest source feature",))
