"""The projection of a whole batch of features, each independent of the others."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.projection.captured import captured_rows
from homefold.projection.engines import ENGINES, choose_engine
from homefold.projection.rules.objective import Decoder, cosine_distance, gradient_function
from homefold.projection.rules.starts import start_names, starting_latents
from homefold.runtime.captured_step import Capturer, capturer_for
from homefold.runtime.device import one_thread
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.tiles import fill_tile, steady_tile

__all__ = ["Projection", "chosen_engine", "preferred_tile", "project"]

_NO_SEARCH = "none"
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
        engine: what ran the search.
    """

    features: torch.Tensor
    latents: torch.Tensor
    similarity_before: torch.Tensor
    similarity_after: torch.Tensor
    iterations: torch.Tensor
    start: torch.Tensor
    start_names: tuple[str, ...]
    engine: str = _NO_SEARCH

    @property
    def tensors(self) -> tuple[torch.Tensor, ...]:
        """All that has a row for each sample, in the order of the fields."""
        similarities = self.similarity_before, self.similarity_after
        return self.features, self.latents, *similarities, self.iterations, self.start

    @staticmethod
    def of(tensors: Iterable[torch.Tensor], start_names: tuple[str, ...], engine: str) -> Projection:
        """What `tensors` was taken from."""
        features, latents, before, after, iterations, start = tensors
        return Projection(features, latents, before, after, iterations, start, start_names, engine)

    def _with(self, tensors: Iterable[torch.Tensor]) -> Projection:
        return Projection.of(tensors, self.start_names, self.engine)

    def cpu(self) -> Projection:
        """The same, with every tensor on the CPU."""
        return self._with(x.cpu() for x in self.tensors)

    def first(self, n: int) -> Projection:
        """What was found for the first n samples."""
        return self._with(x[:n] for x in self.tensors)

    @staticmethod
    def concatenate(parts: list[Projection]) -> Projection:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        return parts[0]._with(torch.cat(same) for same in zip(*(part.tensors for part in parts), strict=True))


def _decoder(manifold: Manifold) -> Decoder:
    """The module that decodes, which the engines can look into, or the method where there is none."""
    module = getattr(manifold, "decoder", None)
    return module if isinstance(module, torch.nn.Module) else manifold.decode


def chosen_engine(config: SearchConfig, manifold: Manifold) -> str:
    """The engine that will run on the manifold's device; "none" where there is nothing to search."""
    if not manifold.is_continuous:
        return _NO_SEARCH
    return choose_engine(_decoder(manifold), config, manifold.bank_features.device)


def preferred_tile(config: SearchConfig, device: torch.device) -> int:
    """Samples in a tile: what the settings say, or what suits the device."""
    return config.tile or _TILE_ROWS.get(device.type, 16)


def _tile(manifold: Manifold, config: SearchConfig, device: torch.device) -> int:
    """The preferred tile, or single samples where this machine's kernels treat some rows of it differently."""

    def one_step(z: torch.Tensor) -> torch.Tensor:
        """Everything that a step computes, row by row, before a small step size can hide a difference."""
        if not manifold.is_continuous:
            return manifold.encode(z)
        starts = starting_latents(config, manifold, z, seed=0)
        n, s, k = starts.shape
        loss, gradient = gradient_function(_decoder(manifold), z, s)(starts.reshape(n * s, k))
        parts = (starts, loss.view(n, s, 1), gradient.view(n, s, k))
        return torch.cat([torch.cat(parts, dim=2).flatten(1), manifold.decode(starts[:, 0].contiguous())], dim=1)

    key = start_names(config, manifold)
    return steady_tile(manifold, key, one_step, (manifold.feature_dim,), preferred_tile(config, device), device)


def project(
    manifold: Manifold,
    z: torch.Tensor,
    config: SearchConfig,
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
            parts.append(_project_rows(manifold, tile, size, config, seed))
            bar.advance(len(tile))
    return Projection.concatenate(parts)


def _project_rows(manifold: Manifold, z: torch.Tensor, size: int, config: SearchConfig, seed: int) -> Projection:
    """The projection of a tile that may not be full, by a captured graph where the device makes them."""
    capturer, engine = _capturer(z.device), chosen_engine(config, manifold)
    if capturer is None or not len(z) or engine == _NO_SEARCH or not ENGINES[engine].capturable:
        return _project_tile(manifold, z, size, config, seed, engine)

    def tensors(manifold: Manifold, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return _project_tile(manifold, z, size, config, seed, engine).tensors

    found = captured_rows(manifold, z, tensors, key=(config, seed, size), capturer=capturer)
    return Projection.of(found, start_names(config, manifold), engine)


@lru_cache
def _capturer(device: torch.device) -> Capturer | None:
    return capturer_for(device)


def _project_tile(
    manifold: Manifold, z: torch.Tensor, size: int, config: SearchConfig, seed: int, engine: str
) -> Projection:
    """The search for a tile that is filled up to `size`, and the best of each sample's searches."""
    count, z = len(z), fill_tile(z, size)
    if engine == _NO_SEARCH:
        return _nearest_point(manifold, z).first(count)
    starts = starting_latents(config, manifold, z, seed)
    run, decode = ENGINES[engine].run, _decoder(manifold)
    if ENGINES[engine].row_by_row:  # nothing is searched for what fills the tile up
        found = run(decode, z[:count], starts[:count], config).filled(len(z))
    else:
        found = run(decode, z, starts, config)
    won = found.after.nan_to_num(nan=torch.inf).argmin(dim=1)
    pick = torch.arange(len(z), device=z.device)
    latents = found.latents[pick, won]
    features = manifold.decode(latents)
    return Projection(
        features=features,
        latents=latents,
        similarity_before=1 - found.before[pick, won],
        similarity_after=1 - cosine_distance(features, z),
        iterations=found.steps[pick, won],
        start=won,
        start_names=start_names(config, manifold),
        engine=engine,
    ).first(count)


def _nearest_point(manifold: Manifold, z: torch.Tensor) -> Projection:
    latents = manifold.encode(z)
    features = manifold.decode(latents)
    similarity = 1 - cosine_distance(features, z)
    zeros = torch.zeros(len(z), dtype=torch.long, device=z.device)
    return Projection(features, latents, similarity, similarity, zeros, zeros, ("nearest source feature",))
