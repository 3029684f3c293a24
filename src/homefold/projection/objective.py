"""What the search for u* minimises."""

from __future__ import annotations

import torch

__all__ = ["cosine_distance"]

_SMALLEST = 1e-12


def cosine_distance(z: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """L_S = 1 − cos(z_t, z), row by row: `(n, d)` and `(n, d)` to `(n,)`.

    >>> cosine_distance(torch.tensor([[2.0, 0.0]]), torch.tensor([[0.0, 1.0]]))
    tensor([1.])
    """
    lengths = (z.square().sum(1) * target.square().sum(1)).sqrt().clamp_min(_SMALLEST)
    return 1 - (z * target).sum(1) / lengths
