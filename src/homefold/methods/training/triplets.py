"""Triplet losses over all pairs of one class, whose negatives are chosen by how far they lie: semi-hard ones."""

from __future__ import annotations

import torch
from torch.nn import functional as F

__all__ = ["all_semi_hard_loss", "next_semi_hard_loss", "squared_distances"]


def squared_distances(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """‖l_i - r_j‖², `(n, m)`, of `left: (n, d)` and `right: (m, d)`, in full precision.

    >>> squared_distances(torch.tensor([[0.0, 0.0]]), torch.tensor([[3.0, 4.0], [0.0, 1.0]]))
    tensor([[25.,  1.]])
    """
    with torch.autocast(left.device.type, enabled=False):
        left, right = left.float(), right.float()
        norms = left.square().sum(dim=1)[:, None] + right.square().sum(dim=1)[None]
        return (norms - 2 * left @ right.T).clamp(min=0)


def _in_order(distances: torch.Tensor, allowed: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Each row's allowed distances in ascending order, others infinite behind them; and how many are allowed."""
    ordered = distances.masked_fill(~allowed, torch.inf).sort(dim=1).values
    return ordered, allowed.sum(dim=1)


def all_semi_hard_loss(
    positive: torch.Tensor, pairs: torch.Tensor, negative: torch.Tensor, allowed: torch.Tensor, margin: float, most: int
) -> torch.Tensor:
    """The mean of p - n + margin over triplets with 0 < p - n + margin < margin, as if drawn: `most` a pair at most.

    A pair with c semi-hard negatives counts with their mean, and as min(c, most) triplets: what a draw of so many has
    in the mean. Zero where there is no triplet.

    Args:
        positive: `(n, m)` distances p of an anchor to others of its class.
        pairs: `(n, m)` which of them are pairs.
        negative: `(n, q)` distances of the anchor to what may be a negative.
        allowed: `(n, q)` which of them are of another class.
        margin, most: see above.
    """
    ordered, _ = _in_order(negative, allowed)
    sums = F.pad(ordered.masked_fill(ordered.isinf(), 0).cumsum(dim=1), (1, 0))
    edges = positive.detach().contiguous()
    first = torch.searchsorted(ordered.detach(), edges, right=True)
    last = torch.searchsorted(ordered.detach(), edges + margin)
    count = (last - first).clamp(min=0)
    mean = (sums.gather(1, last) - sums.gather(1, first)) / count.clamp(min=1)
    weight = count.clamp(max=most) * pairs
    return ((positive - mean + margin) * weight).sum() / weight.sum().clamp(min=1)


def next_semi_hard_loss(distances: torch.Tensor, labels: torch.Tensor, margin: float) -> torch.Tensor:
    """The mean of max(0, p - n + margin) over all pairs (i, j) of one class, n the first negative of i beyond p.

    Where no negative is farther than p, n is the farthest. Pairs without any negative do not count.

    Args:
        distances: `(n, n)` of every sample to every other.
        labels: `(n,)`.
        margin: of the loss.
    """
    same = labels[:, None] == labels[None]
    ordered, count = _in_order(distances, ~same)
    place = torch.searchsorted(ordered.detach(), distances.detach().contiguous(), right=True)
    chosen = ordered.gather(1, torch.minimum(place, (count - 1).clamp(min=0)[:, None]))
    pairs = same & ~torch.eye(len(labels), dtype=torch.bool, device=labels.device) & (count > 0)[:, None]
    losses = (distances - chosen.masked_fill(~pairs, 0) + margin).clamp(min=0)
    return (losses * pairs).sum() / pairs.sum().clamp(min=1)
