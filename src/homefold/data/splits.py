"""Parts of a dataset in which every domain and class keeps its share: for model selection, and to look at fewer."""

from __future__ import annotations

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.errors import ConfigError, DataError
from homefold.runtime.seeding import derive_seed

__all__ = ["holdout_split", "selection_split", "stratified_rows"]


def holdout_split(labels: np.ndarray, domains: np.ndarray, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and indices held out, each sorted, drawn from every domain × class cell alike.

    A cell of one image stays in training; every larger one gives at least one image to each side. The draw in
    a cell depends on nothing outside it.

    Args:
        labels, domains: `(n,)` integers.
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
        share = min(max(int(len(members) * fraction + 0.5), 1), len(members) - 1)  # leaves neither side empty
        held_out[random.permutation(members)[:share]] = True
    return np.flatnonzero(~held_out), np.flatnonzero(held_out)


def selection_split(source: DomainDataset, fraction: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Indices to train on and indices to select on: the official `val` images where there are any, else a draw.

    `fraction` is that of each domain and class to hold out where nothing is marked.
    """
    if "val" in source.splits:
        held = np.array(source.splits) == "val"
        train, held_out = np.flatnonzero(~held), np.flatnonzero(held)
    else:
        train, held_out = holdout_split(source.labels, source.domains, fraction, seed)
    if len(train) < 2 or len(held_out) < 2:
        raise DataError(
            f"{source.name} has {len(source)} source images: too few to train on and to hold a part back; give at "
            f"least two images of each class in each domain."
        )
    return train, held_out


def stratified_rows(groups: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most `most` row numbers, ascending: all rows if there are no more, else a seeded draw from every group.

    Each group has its share of the draw, and at least one row where there are no more groups than that.

    >>> stratified_rows(np.array([0, 1, 0, 1, 0, 1]), most=4, seed=0).tolist()
    [0, 1, 2, 5]

    Args:
        groups: `(n,)` or `(n, k)` integers: what each row is of, its class and its domain say.
        most, seed: how many rows to keep, and that of the draw.
    """
    n = len(groups)
    if n <= most:
        return np.arange(n)
    random = np.random.default_rng(derive_seed(seed, "stratified rows"))
    _, group, counts = np.unique(groups, axis=0, return_inverse=True, return_counts=True)
    shuffled = random.permutation(n)
    rows = shuffled[np.argsort(group.reshape(n)[shuffled], kind="stable")]
    rank = np.arange(n) - np.repeat(np.cumsum(counts) - counts, counts)
    # How much of its group comes before a row: those with the least give every group the same part of itself.
    before = rank / np.repeat(counts, counts)
    ties = random.permutation(n)
    return np.sort(rows[ties[np.argsort(before[ties], kind="stable")][:most]])
