"""What the search for u* minimises, L_S, and its gradient: by autograd, or by hand for an MLP decoder."""

from __future__ import annotations

import torch

from homefold.projection.rules.objective.cosine import Decoder, Measure, cosine_distance, loss_and_gradient
from homefold.projection.rules.objective.mlp import (
    MLPDecoder,
    MLPGradient,
    mlp_decoder,
    mlp_loss_and_gradient,
    weights_version,
)

__all__ = [
    "Decoder",
    "MLPDecoder",
    "MLPGradient",
    "Measure",
    "cosine_distance",
    "gradient_function",
    "loss_and_gradient",
    "mlp_decoder",
    "mlp_loss_and_gradient",
    "weights_version",
]


def gradient_function(decode: Decoder, targets: torch.Tensor, repeats: int = 1) -> Measure:
    """Latents `(rows, k)` to the loss and its gradient, by hand for an MLP decoder and by autograd for any other.

    Args:
        decode: G.
        targets: `(n, d)`.
        repeats: rows for each target, one after the other.
    """
    decoder = mlp_decoder(decode)
    if decoder is not None and decoder.gram.dtype == targets.dtype:
        return MLPGradient(decoder, targets, repeats)
    rows = targets.repeat_interleave(repeats, dim=0)
    return lambda u: loss_and_gradient(decode, u, rows)
