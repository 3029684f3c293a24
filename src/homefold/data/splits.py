"""Setting a part of the source images aside for model selection."""

from __future__ import annotations

import numpy as np

from homefold.errors import ConfigError, DataError
from homefold.seeding import derive_seed

__all__ = ["holdout_split"]


def holdout_split(labels: np.ndarray, domains: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and indices held out, each sorted, drawn from every domain × class cell alike.

    A cell of one image stays in training; every larger one gives at least one image to each side. The draw in
    a cell depends on nothing outside it.

    Args:
        labels: `(n,)` integers.
        domains: `(n,)` integers.
        fraction: the share to hold out, between 0 and 1.
        seed: the run's seed.
    """
    labels, domains = np.asarray(labels), np.asarray(domains)
    if not 0 < fraction < 1:
        raise ConfigError(f"the held-out fraction must lie between 0 and 1, without either; got {fraction}.")
    if labels.ndim != 1 or labels.shape != domains.shape:
        raise DataError(
            "labels and domains must both have one value for each image; "
            f"got shapes {labels.shape} and {domains.shape}."
        )
    held_out = np.zeros(len(labels), dtype=bool)
    for domain, label in sorted(set(zip(domains.tolist(), labels.tolist(), strict=True))):
        members = np.flatnonzero((domains == domain) & (labels == label))
        random = np.random.default_rng(derive_seed(seed, "holdout", domain, label))
        held_out[random.permutation(members)[: _held_out_count(len(members), fraction)]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def _held_out_count(members: int, fraction: float) -> int:
    """`fraction` of `members`, rounded half up, leaving neither side empty where there are two to share."""
    return min(max(int(members * fraction + 0.5), 1), members - 1)
