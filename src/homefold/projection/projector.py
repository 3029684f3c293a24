"""The projection of a whole batch of features, each independent of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from typing import Any

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.projection.engines import ENGINES, Search, choose_engine
from homefold.projection.recorded import RowTensors, recorded_rows
from homefold.projection.rules.objective import Decoder, cosine_distance, gradient_function
from homefold.projection.rules.starts import start_names, starting_latents
from homefold.runtime.captured_step import Recorder, recorder_for
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

    def cpu(self) -> Projection:
        """The same, with every tensor on the CPU."""
        return self._with_each(lambda x: x.cpu())

    def first(self, n: int) -> Projection:
        """What was found for the first n samples."""
        return self._with_each(lambda x: x[:n])

    def _with_each(self, change: Callable[[torch.Tensor], torch.Tensor]) -> Projection:
        changed: dict[str, Any] = {name: change(getattr(self, name)) for name in _TENSORS}
        return replace(self, **changed)

    @staticmethod
    def concatenate(parts: list[Projection]) -> Projection:
        """One after the other."""
        if len(parts) == 1:
            return parts[0]
        joined: dict[str, Any] = {name: torch.cat([getattr(part, name) for part in parts]) for name in _TENSORS}
        return replace(parts[0], **joined)


_OTHERS = ("start_names", "engine")
_TENSORS = tuple(field.name for field in fields(Projection) if field.name not in _OTHERS)


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
    """The projection of a tile that may not be full."""

    def project_rows(manifold: Manifold, z: torch.Tensor) -> Projection:
        return _project_tile(manifold, fill_tile(z, size), len(z), config, seed).first(len(z))

    recorder = _recorder(z.device)
    engine = chosen_engine(config, manifold)
    if recorder is None or not len(z) or engine == _NO_SEARCH or not ENGINES[engine].recordable:
        return project_rows(manifold, z)

    def tensors(manifold: Manifold, z: torch.Tensor) -> RowTensors:
        found = project_rows(manifold, z)
        return tuple(getattr(found, name) for name in _TENSORS)

    found = recorded_rows(manifold, z, tensors, key=(config, seed, size), recorder=recorder)
    named: dict[str, Any] = dict(zip(_TENSORS, found, strict=True))
    return Projection(**named, start_names=start_names(config, manifold), engine=engine)


@lru_cache
def _recorder(device: torch.device) -> Recorder | None:
    return recorder_for(device)


def _project_tile(manifold: Manifold, z: torch.Tensor, filled: int, config: SearchConfig, seed: int) -> Projection:
    """The search for a whole tile, of which the first `filled` rows count."""
    if not manifold.is_continuous:
        return _nearest_point(manifold, z)
    starts = starting_latents(config, manifold, z, seed)
    engine = chosen_engine(config, manifold)
    found = _search(engine, _decoder(manifold), z, starts, filled, config)
    return _answer(manifold, z, found, config, engine)


def _answer(manifold: Manifold, z: torch.Tensor, found: Search, config: SearchConfig, engine: str) -> Projection:
    """The best of each sample's searches, and where it led."""
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
    )


def _search(
    engine: str, decode: Decoder, z: torch.Tensor, starts: torch.Tensor, filled: int, config: SearchConfig
) -> Search:
    """The ends of all searches of a tile; what fills it up is searched for only where the engine wants whole tiles."""
    chosen = ENGINES[engine]
    if not chosen.row_by_row or not filled:
        return chosen.run(decode, z, starts, config)
    return chosen.run(decode, z[:filled], starts[:filled], config).filled(len(z))


def _nearest_point(manifold: Manifold, z: torch.Tensor) -> Projection:
    latents = manifold.encode(z)
    features = manifold.decode(latents)
    similarity = 1 - cosine_distance(features, z)
    zeros = torch.zeros(len(z), dtype=torch.long, device=z.device)
    return Projection(features, latents, similarity, similarity, zeros, zeros, ("nearest source feature",))
