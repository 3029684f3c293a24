"""L_S, the cosine distance, and its gradient by autograd."""

from __future__ import annotations

from collections.abc import Callable

import torch

__all__ = ["Decoder", "Measure", "cosine_distance", "loss_and_gradient"]

Decoder = Callable[[torch.Tensor], torch.Tensor]
"""G: latents `(rows, k)` to features `(rows, d)`, each row on its own."""

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


def loss_and_gradient(decode: Decoder, u: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """L_S `(rows,)` at latents `u: (rows, k)`, and its gradient `(rows, k)`, by autograd."""
    with torch.enable_grad():
        u = u.detach().requires_grad_()
        loss = cosine_distance(decode(u), targets)
        (gradient,) = torch.autograd.grad(loss.sum(), u)
    return loss.detach(), gradient
