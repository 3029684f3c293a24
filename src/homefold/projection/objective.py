"""What the search for u* minimises."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["Measure", "cosine_distance"]

Measure = Callable[..., tuple[torch.Tensor, torch.Tensor]]
"""Latents `(rows, k)`, and what it needs of the targets, to the loss `(rows,)` and its gradient `(rows, k)`."""

_SMALLEST = 1e-24


def cosine_distance(z: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """L_S = 1 − cos(z_t, z), row by row: `(n, d)` and `(n, d)` to `(n,)`; a zero row is similar to nothing.

    The clamp stands inside the root, whose gradient at zero would be infinite.

    >>> cosine_distance(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([1.])
    """
    length, target_length = (x.square().sum(1).clamp_min(_SMALLEST).sqrt() for x in (z, target))
    return 1 - (z * target).sum(1) / (length * target_length)
