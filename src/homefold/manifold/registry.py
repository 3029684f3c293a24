"""Manifolds by name: build an empty one to load into, or fit one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch

from homefold.config.manifold import MANIFOLDS, ManifoldConfig
from homefold.manifold.base import Manifold
from homefold.runtime.progress import ProgressReporter

__all__ = ["build_manifold", "fit_manifold", "list_manifolds"]


def list_manifolds() -> tuple[str, ...]:
    """The kinds of manifold that exist.

    >>> list_manifolds()
    ('conv-vae', 'gan', 'nearest', 'vae')
    """
    return tuple(MANIFOLDS)


def build_manifold(config: ManifoldConfig, feature_dim: int, bank_size: int = 0) -> Manifold:
    """An unfitted manifold, frozen, into which a saved state of any bank size loads.

    Args:
        config: kind and shapes.
        feature_dim: dimensions of a feature.
        bank_size: rows of the empty bank; `load_state_dict` replaces it by the state's.
    """
    manifold: Manifold = MANIFOLDS[config.kind].build(config, feature_dim, bank_size)
    manifold.freeze()
    return manifold


def fit_manifold(
    config: ManifoldConfig,
    train: torch.Tensor,
    held_out: torch.Tensor,
    *,
    labels: torch.Tensor | None = None,
    seed: int,
    device: torch.device | str = "cpu",
    reporter: ProgressReporter | None = None,
    initial: Mapping[str, torch.Tensor] | None = None,
    keep: Literal["best", "last"] = "best",
) -> Manifold:
    """Fit the configured manifold to source features and measure it on held-out ones.

    Args:
        config: kind and how to train it.
        train: (n, d) source features, normalised as they will be at inference.
        held_out: (m, d) features of the same source domains: selection and the report use them.
        labels: (n,) labels of `train`, which 1-NN keeps beside its features.
        seed: all randomness follows from it.
        device: where to train; the result stays there.
        reporter: is told of each epoch.
        initial: weights to go on from, of a manifold of the same kind; 1-NN takes none.
        keep: the epoch to keep, the best on `held_out` or the last.

    Returns:
        The manifold, frozen, with its `report`; `require_usable` says whether it may be used.
    """
    fitted: Manifold = MANIFOLDS[config.kind].fit(
        config,
        train,
        held_out,
        labels=labels,
        seed=seed,
        device=device,
        reporter=reporter,
        initial=initial,
        keep=keep,
    )
    return fitted
