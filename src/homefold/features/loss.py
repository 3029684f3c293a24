"""The pairwise metric loss L_A: cosine similarity learns to mean "same label", whatever the domain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch.nn import functional as F

from homefold.features.pair_blocks import pair_loss_in_blocks, rows_at_a_time
from homefold.runtime.processes import current_processes, gather_labels, gather_rows

__all__ = [
    "cosine_normalise",
    "pairwise_metric_loss",
    "pairwise_metric_loss_bound",
    "pairwise_metric_loss_share",
]

# Up to here all pairs at once are the faster way; beyond, several matrices of N² numbers would be held.
_LARGEST_WHOLE = 2048


def cosine_normalise(z: torch.Tensor) -> torch.Tensor:
    """Scale every row of `z: (n, d)` to unit length, for any finite scale; a zero row stays zero.

    Squaring 1e30 overflows float32 and squaring 1e-30 vanishes, so each row is first divided by its largest
    entry. That factor is a constant for the gradient: the direction does not depend on it.
    """
    largest = z.detach().abs().amax(dim=1, keepdim=True)
    return F.normalize(z / torch.where(largest > 0, largest, torch.ones_like(largest)), dim=1)


def pairwise_metric_loss(
    z: torch.Tensor, labels: torch.Tensor, temperature: float = 0.1, *, chunk: int | None = None
) -> torch.Tensor:
    """L_A = mean over all N² pairs (i, j), the diagonal included, of BCE(sigmoid(cos(z_i, z_j) / τ), [y_i = y_j]).

    Args:
        z: `(n, d)` features; computed in float32 at least, whatever autocast says.
        labels: `(n,)` integers.
        temperature: τ.
        chunk: rows of the pair matrix held at a time, so that memory grows as `chunk · n` and not as n²; the value and
            the gradient are the same. None holds all rows up to a batch of 2,048, and beyond as many as 4 million
            pairs have. Such a loss can be differentiated once only.

    Returns:
        A scalar.

    >>> z = torch.tensor([[1.0, 0.0], [2.0, 0.0]])
    >>> round(float(pairwise_metric_loss(z, torch.tensor([0, 0]), 1.0)), 4)  # ln(1 + 1/e)
    0.3133
    """
    with torch.autocast(z.device.type, enabled=False):
        unit = _unit_rows(z)
        if chunk is None and len(z) > _LARGEST_WHOLE:
            chunk = rows_at_a_time(len(z))
        if chunk is not None:
            return pair_loss_in_blocks(unit, unit, labels, labels, temperature, chunk=chunk)
        logits = unit @ unit.T / temperature
        same = (labels[:, None] == labels[None, :]).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, same, reduction="none").mean()


def pairwise_metric_loss_share(z: torch.Tensor, labels: torch.Tensor, temperature: float = 0.1) -> torch.Tensor:
    """This process's share of the L_A over the pairs of all processes; alone, L_A itself.

    The shares add up to the L_A of the whole batch, and the gradients of the shares to its gradient, as long as every
    process calls this and its backward pass. All processes give equally many rows.

    Args:
        z: `(n, d)` this process's features.
        labels: `(n,)` this process's.
        temperature: τ.
    """
    if current_processes().count == 1:
        return pairwise_metric_loss(z, labels, temperature)
    with torch.autocast(z.device.type, enabled=False):
        unit = _unit_rows(z)
        columns, column_labels = gather_rows(unit), gather_labels(labels)
        chunk = rows_at_a_time(len(columns))
        return pair_loss_in_blocks(unit, columns, labels, column_labels, temperature, chunk=chunk)


def _unit_rows(z: torch.Tensor) -> torch.Tensor:
    return cosine_normalise(z if z.dtype in (torch.float32, torch.float64) else z.float())


def pairwise_metric_loss_bound(class_counts: Sequence[int], temperature: float) -> float:
    """About the least value L_A can take: classes at the corners of a regular simplex.

    Each class is one point and two classes meet at cosine −1/(C−1). Exact for balanced classes; with other
    counts the corners may spread a little better than evenly.

    Args:
        class_counts: images of each class in the set the loss is taken over.
        temperature: τ.

    >>> round(pairwise_metric_loss_bound([10] * 7, 0.1), 3), round(pairwise_metric_loss_bound([10] * 10, 0.1), 3)
    (0.148, 0.256)
    """
    counts = [count for count in class_counts if count > 0]
    total = sum(counts)
    same = sum(count**2 for count in counts) / total**2
    positive = _softplus(-1 / temperature)
    if len(counts) < 2:
        return positive
    negative = _softplus(-1 / ((len(counts) - 1) * temperature))
    return same * positive + (1 - same) * negative


def _softplus(value: float) -> float:
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))
