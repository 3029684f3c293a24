"""The sum behind L_A, some rows of the pair matrix at a time: value and gradient in one pass, never N² numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

__all__ = ["PairWeights", "pair_loss_in_blocks", "rows_at_a_time"]

PairWeights = Callable[[slice, torch.Tensor, torch.Tensor], torch.Tensor]
"""From some rows, which of their pairs have equal labels, and those pairs' logits, to what each pair weighs."""

# So many pairs of a block make matrices of 16 MB in float32: large enough to be fast, small beside N².
_PAIRS_AT_A_TIME = 1 << 22


def rows_at_a_time(columns: int) -> int:
    """Rows of a block when each has `columns` pairs.

    >>> rows_at_a_time(8192)
    512
    """
    return max(1, _PAIRS_AT_A_TIME // max(columns, 1))


def pair_loss_in_blocks(
    rows: torch.Tensor,
    columns: torch.Tensor,
    row_labels: torch.Tensor,
    column_labels: torch.Tensor,
    temperature: float | torch.Tensor,
    bias: float | torch.Tensor,
    *,
    balanced: bool,
    chunk: int,
    weigh: PairWeights | None = None,
) -> torch.Tensor:
    """What the pairs of `rows` with all `columns` contribute to the L_A of all pairs of `columns`.

    With rows equal to columns that is L_A itself. The contributions of parts that make up the columns add up to it.

    Args:
        rows: `(m, d)` unit vectors, a part of the columns.
        columns: `(n, d)` unit vectors.
        row_labels: `(m,)`.
        column_labels: `(n,)`.
        temperature: τ.
        bias: b.
        balanced: weigh equal and different pairs half each.
        chunk: rows of the pair matrix held at a time; memory grows as `chunk · n`.
        weigh: what each pair weighs, constants for the gradient; by default as `balanced` says.
    """
    if weigh is None:
        weigh = _pair_weights(column_labels, balanced, columns.dtype)

    def scalar(value: float | torch.Tensor) -> torch.Tensor:
        # Filled on the device: a copy from the host could not be recorded.
        if isinstance(value, torch.Tensor):
            return value.to(columns.device, columns.dtype)
        return torch.full((), value, dtype=columns.dtype, device=columns.device)

    value: torch.Tensor = _PairBlocks.apply(
        rows,
        columns,
        row_labels,
        column_labels,
        scalar(temperature),
        scalar(bias),
        weigh,
        chunk,
    )
    return value


def _pair_weights(labels: torch.Tensor, balanced: bool, dtype: torch.dtype) -> PairWeights:
    """One weight for each pair of equal and one for each pair of different labels."""
    pairs = len(labels) ** 2
    if balanced:
        equal = labels.unique(return_counts=True)[1].square().sum()
        same_weight, different_weight = (0.5 / count.clamp(min=1).to(dtype) for count in (equal, pairs - equal))
    else:
        same_weight = different_weight = torch.full((), 1 / pairs, dtype=dtype, device=labels.device)
    return lambda block, same, logits: torch.where(same, same_weight, different_weight)


class _PairBlocks(torch.autograd.Function):
    """Σ w_ij BCE(sigmoid(r_i · c_j / τ + b), y_ij); its gradient is made along with its value.

    ∂/∂logit = w_ij (sigmoid(logit) - y_ij), and logit = r_i · c_j / τ + b gives the rest by two matrix products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        rows: torch.Tensor,
        columns: torch.Tensor,
        row_labels: torch.Tensor,
        column_labels: torch.Tensor,
        temperature: torch.Tensor,
        bias: torch.Tensor,
        weigh: PairWeights,
        chunk: int,
    ) -> torch.Tensor:
        wanted = any(ctx.needs_input_grad)
        scalars_wanted = ctx.needs_input_grad[4] or ctx.needs_input_grad[5]
        total = rows.new_zeros(())
        to_rows = torch.empty_like(rows) if wanted else None
        to_columns = torch.zeros_like(columns) if wanted else None
        to_temperature, to_bias = torch.zeros_like(total), torch.zeros_like(total)
        for start in range(0, len(rows), chunk):
            part = rows[start : start + chunk]
            logits = (part @ columns.T).div_(temperature).add_(bias)
            same = row_labels[start : start + chunk, None] == column_labels
            weights = weigh(slice(start, start + chunk), same, logits)
            # -log of the probability of being right, which does not overflow
            losses = F.logsigmoid(torch.where(same, logits, -logits)).mul_(weights)
            total -= losses.sum()
            del losses
            if to_rows is None or to_columns is None:
                continue
            slope = torch.sigmoid(logits).sub_(same.to(logits.dtype)).mul_(weights)
            if scalars_wanted:
                to_temperature -= (slope * logits.sub_(bias)).sum() / temperature
                to_bias += slope.sum()
            torch.mm(slope, columns, out=to_rows[start : start + chunk])
            to_columns.addmm_(slope.T, part)
        if to_rows is not None and to_columns is not None:
            gradients = (to_rows.div_(temperature), to_columns.div_(temperature), to_temperature, to_bias)
            ctx.save_for_backward(*gradients)
        return total

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        to_rows, to_columns, to_temperature, to_bias = (saved * gradient for saved in ctx.saved_tensors)
        return to_rows, to_columns, None, None, to_temperature, to_bias, None, None
