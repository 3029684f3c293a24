"""A part of the rows in which every group keeps its share, whatever the order of the rows."""

from __future__ import annotations

import numpy as np

from homefold.runtime.seeding import derive_seed

__all__ = ["stratified_rows"]


def stratified_rows(groups: np.ndarray, most: int, seed: int) -> np.ndarray:
    """At most `most` row numbers, ascending: all rows if there are no more, else a seeded draw from every group.

    Each group has its share of the draw, and at least one row where there are no more groups than that.

    >>> stratified_rows(np.array([0, 1, 0, 1, 0, 1]), most=4, seed=0).tolist()
    [0, 1, 2, 5]

    Args:
        groups: `(n,)` or `(n, k)` integers: what each row is of, its class and its domain say.
        most: how many rows to keep.
        seed: of the draw.
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
