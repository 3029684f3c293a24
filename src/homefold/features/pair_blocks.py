"""The sum behind L_A, some rows of the pair matrix at a time: value and gradient in one pass, never N² numbers."""

from __future__ import annotations

from typing import Any

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional as F

__all__ = ["pair_loss_in_blocks", "rows_at_a_time"]

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
    temperature: float,
    *,
    chunk: int,
) -> torch.Tensor:
    """What the pairs of `rows` with all `columns` contribute to the L_A of all pairs of `columns`.

    With rows equal to columns that is L_A itself. The contributions of parts that make up the columns add up to it.

    Args:
        rows: `(m, d)` unit vectors, a part of the columns.
        columns: `(n, d)` unit vectors.
        row_labels: `(m,)`.
        column_labels: `(n,)`.
        temperature: τ.
        chunk: rows of the pair matrix held at a time; memory grows as `chunk · n`.
    """
    # Filled on the device: a copy from the host could not be recorded.
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
