"""Pseudo-domains: images grouped by their style, under names that last from one clustering to the next."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from homefold.runtime.seeding import derive_seed

__all__ = ["cluster_styles", "match_clusters", "style_features"]

_LEAST_SPREAD = 1e-6


def style_features(maps: Sequence[torch.Tensor]) -> torch.Tensor:
    """Mean and standard deviation of every channel of every map, `(n, 2 · channels of all maps)`.

    Args:
        maps: `(n, c, h, w)` each, of several stages of a network.

    >>> style_features([torch.tensor([[[[1.0, 3.0]], [[5.0, 5.0]]]])])
    tensor([[2., 5., 1., 0.]])
    """
    parts = []
    for stage in maps:
        flat = stage.float().flatten(2)
        parts += [flat.mean(dim=2), flat.std(dim=2, correction=0)]
    return torch.cat(parts, dim=1)


def cluster_styles(styles: torch.Tensor, clusters: int, seed: int) -> torch.Tensor:
    """The cluster of each image, `(n,)` on the CPU, by k-means on styles of which every dimension weighs the same.

    Args:
        styles: `(n, d)`.
        clusters: how many; with fewer different styles than that, some stay empty.
        seed: of the first centres.
    """
    from sklearn.cluster import KMeans  # slow to import, and few commands need it

    points = styles.double().cpu()
    points = (points - points.mean(dim=0)) / points.std(dim=0, correction=0).clamp_min(_LEAST_SPREAD)
    clusters = min(clusters, len(torch.unique(points, dim=0)))
    means = KMeans(clusters, n_init=3, random_state=derive_seed(seed, "style clusters") % 2**32)
    return torch.from_numpy(means.fit_predict(points.numpy()).astype(np.int64))


def match_clusters(new: torch.Tensor, old: torch.Tensor, clusters: int) -> torch.Tensor:
    """`new` renamed so that as many images as can be keep the cluster they had (the Hungarian assignment).

    Args:
        new: `(n,)` clusters under any names.
        old: `(n,)` clusters of the same images before.
        clusters: how many names there are.

    >>> match_clusters(torch.tensor([2, 2, 0, 1]), torch.tensor([0, 0, 1, 2]), 3)
    tensor([0, 0, 1, 2])
    """
    from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped]

    shared = torch.bincount(new * clusters + old, minlength=clusters**2).view(clusters, clusters)
    _, names = linear_sum_assignment(shared.numpy(), maximize=True)
    return torch.from_numpy(names)[new]
