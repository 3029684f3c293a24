"""The pairwise metric loss L_A: cosine similarity learns to mean "same label", whatever the domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

from homefold.runtime.processes import current_processes, gather_labels, gather_rows

__all__ = ["cosine_normalise", "pairwise_metric_loss", "pairwise_metric_loss_bound", "pairwise_metric_loss_share"]

# Up to here all pairs at once are the faster way; beyond, several matrices of N² numbers would be held.
_LARGEST_WHOLE = 2048
# So many pairs of a chunk make matrices of 16 MB in float32: large enough to be fast, small beside N².
_PAIRS_AT_A_TIME = 1 << 22


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
            chunk = _rows_at_a_time(len(z))
        if chunk is not None:
            return _pair_loss_in_chunks(unit, unit, labels, labels, temperature, chunk=chunk)
        logits = unit @ unit.T / temperature
        same = (labels[:, None] == labels[None, :]).to(logits.dtype)
        return F.binary_cross_entropy_with_logits(logits, same, reduction="none").mean()


def pairwise_metric_loss_share(z: torch.Tensor, labels: torch.Tensor, temperature: float = 0.1) -> torch.Tensor:
    """This process's share of the L_A over the pairs of all processes; alone, L_A itself.

    The shares add up to the L_A of the whole batch, and the gradients of the shares to its gradient, as long as every
    process calls this and its backward pass. All processes give equally many rows.
    """
    if current_processes().count == 1:
        return pairwise_metric_loss(z, labels, temperature)
    with torch.autocast(z.device.type, enabled=False):
        unit = _unit_rows(z)
        columns, column_labels = gather_rows(unit), gather_labels(labels)
        chunk = _rows_at_a_time(len(columns))
        return _pair_loss_in_chunks(unit, columns, labels, column_labels, temperature, chunk=chunk)


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


def _rows_at_a_time(columns: int) -> int:
    """Rows of a chunk when each has `columns` pairs."""
    return max(1, _PAIRS_AT_A_TIME // max(columns, 1))


def _pair_loss_in_chunks(
    rows: torch.Tensor,
    columns: torch.Tensor,
    row_labels: torch.Tensor,
    column_labels: torch.Tensor,
    temperature: float,
    *,
    chunk: int,
) -> torch.Tensor:
    """What the pairs of `rows` with all `columns` contribute to the L_A of all pairs of `columns`.

    With rows equal to columns that is L_A itself. The contributions of parts that make up the columns add up to it.
    rows: `(m, d)` unit vectors, a part of the columns; columns: `(n, d)`; chunk: rows of the matrix held at a time.
    """
    # Filled on the device: a copy from the host could not be captured.
    scalars = (columns.new_full((), value) for value in (temperature, 1 / len(columns) ** 2))
    value: torch.Tensor = _PairBlocks.apply(rows, columns, row_labels, column_labels, *scalars, chunk)
    return value


class _PairBlocks(torch.autograd.Function):
    """w Σ BCE(sigmoid(r_i · c_j / τ), y_ij); its gradient is made along with its value.

    ∂/∂logit = w (sigmoid(logit) - y_ij), and logit = r_i · c_j / τ gives the rest by two matrix products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        columns: torch.Tensor,
        row_labels: torch.Tensor,
        column_labels: torch.Tensor,
        temperature: torch.Tensor,
        weight: torch.Tensor,
        chunk: int,
    ) -> torch.Tensor:
        wanted = any(ctx.needs_input_grad)
        total = rows.new_zeros(())
        to_rows = torch.empty_like(rows) if wanted else None
        to_columns = torch.zeros_like(columns) if wanted else None
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            logits = (part @ columns.T).div_(temperature)
            same = row_labels[start : start + chunk, None] == column_labels
            # -log of the probability of being right, which does not overflow
            losses = F.logsigmoid(torch.where(same, logits, -logits)).mul_(weight)
            total -= losses.sum()
            del losses
            if to_rows is None or to_columns is None:
                continue
            slope = torch.sigmoid(logits).sub_(same.to(logits.dtype)).mul_(weight)
            torch.mm(slope, columns, out=to_rows[start : start + chunk])
            to_columns.addmm_(slope.T, part)
        if to_rows is not None and to_columns is not None:
            ctx.save_for_backward(to_rows.div_(temperature), to_columns.div_(temperature))
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_rows, to_columns = (saved * gradient for saved in ctx.saved_tensors)
        return to_rows, to_columns, None, None, None, None, None
