"""The nearest source feature (1-NN): the simplest stand-in for a manifold."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import functional as F

from homefold.config.manifold import ManifoldConfig, manifold_named
from homefold.errors import DataError, ModelFileError
from homefold.manifold.base import Manifold, baseline_cosine, report_on
from homefold.runtime.tiles import apply_in_tiles

__all__ = ["NearestNeighbour", "fit_nearest", "nearest_index", "nearest_to_each"]

_QUERY_TILE = 64
_BANK_TILE = 65536
_TIE = 1e-6


def nearest_index(z: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
    """Index of the bank row with the highest cosine to each row of z; the lowest index of those that tie.

    Cosines within 1e-6 of the highest count as equal: float32 gives identical rows slightly different ones,
    depending on where they lie. Queries run in tiles of one size, so an answer does not depend on the batch.

    Args:
        z: (n, d) features.
        bank: (k, d) features, k at least 1.

    Returns:
        (n,) integers.
    """
    bank = F.normalize(bank, dim=1)
    return apply_in_tiles(lambda tile: nearest_to_each(tile, bank), F.normalize(z, dim=1), _QUERY_TILE)


def nearest_to_each(queries: torch.Tensor, bank: torch.Tensor) -> torch.Tensor:
    """`nearest_index` of one tile of unit queries, the bank taken piece by piece to bound the memory."""
    best = torch.full((queries.shape[0],), -torch.inf, device=bank.device)
    index = torch.zeros(queries.shape[0], dtype=torch.long, device=bank.device)
    for start in range(0, len(bank), _BANK_TILE):
        cosine = queries @ bank[start : start + _BANK_TILE].T
        highest = cosine.amax(dim=1)
        first = (cosine >= highest[:, None] - _TIE).to(torch.uint8).argmax(dim=1)
        wins = highest > best + _TIE
        best, index = torch.where(wins, highest, best), torch.where(wins, first + start, index)
    return index


class NearestNeighbour(Manifold):
    """All source features; a latent is the index of one of them, as a single float.

    Args:
        feature_dim: dimensions d of a feature.
        bank_size: rows of the bank before fitting or loading.
    """

    has_encoder = True
    is_continuous = False
    bank_labels: torch.Tensor

    def __init__(self, feature_dim: int, bank_size: int = 0) -> None:
        super().__init__(feature_dim, 1, bank_size)
        # no labels is an empty buffer rather than a missing one, so that every state has the same names
        self.register_buffer("bank_labels", torch.zeros(0, dtype=torch.long))

    def require_bank(self) -> None:
        super().require_bank()
        if len(self.bank_labels) not in (0, len(self.bank_features)):
            raise ModelFileError(
                f"the manifold has {len(self.bank_features)} known features and {len(self.bank_labels)} labels of them."
            )

    def decode(self, u: torch.Tensor) -> torch.Tensor:
        """The features at indices. u: (n, 1) -> (n, feature_dim)."""
        return self.bank_features[u[:, 0].round().long().clamp(0, len(self.bank_features) - 1)]

    def encode(self, z: torch.Tensor) -> torch.Tensor:
        """The index of the nearest source feature by cosine. z: (n, feature_dim) -> (n, 1)."""
        return nearest_index(z, self.bank_features).to(self.bank_latents.dtype)[:, None]

    def sample(self, n: int, generator: torch.Generator) -> torch.Tensor:
        """n source features drawn with replacement: (n, feature_dim)."""
        rows = torch.randint(len(self.bank_features), (n,), generator=generator, device=generator.device)
        return self.bank_features[rows.to(self.bank_features.device)]


@manifold_named("nearest", build=lambda _, dim, bank_size: NearestNeighbour(dim, bank_size), has_settings=False)
def fit_nearest(
    config: ManifoldConfig,
    train: torch.Tensor,
    held_out: torch.Tensor,
    *,
    labels: torch.Tensor | None,
    device: torch.device,
    **_: Any,
) -> NearestNeighbour:
    """Keep the source features, and their labels where given; see `fit_manifold`."""
    if labels is not None and labels.shape != (len(train),):
        raise DataError(f"there are {len(train)} training features, but labels of shape {tuple(labels.shape)}.")
    model = NearestNeighbour(train.shape[1])
    model.bank_features = train.clone()
    model.bank_latents = torch.arange(len(train), dtype=torch.float32, device=device)[:, None]
    if labels is not None:
        model.bank_labels = labels.detach().to(device, torch.long).clone()
    model.to(device)
    cosine = float(F.cosine_similarity(held_out, model.decode(model.encode(held_out))).mean())
    model.report = report_on(config, 0, baseline_cosine(train, held_out), cosine)
    model.freeze()
    return model
