"""The search's loss and gradient in plain operations, layer by layer: ONNX knows no autograd."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.manifold import Manifold

__all__ = ["decoder_layers", "loss_and_gradient"]

_SMALLEST = 1e-24

Backward = Callable[[Any, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


_BACKWARD: dict[type[nn.Module], Backward] = {
    nn.Linear: lambda layer, given, out, gradient: gradient @ layer.weight,
    nn.LeakyReLU: lambda layer, given, out, gradient: torch.where(given > 0, gradient, gradient * layer.negative_slope),
    nn.ReLU: lambda layer, given, out, gradient: torch.where(given > 0, gradient, torch.zeros_like(gradient)),
    nn.Tanh: lambda layer, given, out, gradient: gradient * (1 - out.square()),
    nn.Sigmoid: lambda layer, given, out, gradient: gradient * out * (1 - out),
    nn.Flatten: lambda layer, given, out, gradient: gradient.reshape(given.shape),
    nn.Unflatten: lambda layer, given, out, gradient: gradient.reshape(given.shape),
    nn.ConvTranspose2d: lambda layer, given, out, gradient: F.conv2d(
        gradient, layer.weight, None, layer.stride, layer.padding, layer.dilation, layer.groups
    ),
}
"""By layer: the gradient of its input from its input, its output and the gradient of that."""


def decoder_layers(manifold: Manifold) -> list[nn.Module]:
    """The layers of G, each of a kind whose gradient is known here; any other is refused."""
    decoder = getattr(manifold, "decoder", None)
    layers = list(decoder) if isinstance(decoder, nn.Sequential) else [decoder]
    for layer in layers:
        if type(layer) not in _BACKWARD:
            raise ConfigError(
                f"this model cannot be exported: the gradient of {type(layer).__name__} in the decoder of its manifold "
                f"is not known to the export, which knows {', '.join(kind.__name__ for kind in _BACKWARD)}."
            )
    return [layer for layer in layers if layer is not None]


def loss_and_gradient(
    layers: Sequence[nn.Module], u: torch.Tensor, targets: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """L_S = 1 − cos(t, G(u)) `(rows,)` at latents `u: (rows, k)`, and its gradient `(rows, k)`.

    With ĝ and t̂ the directions of G(u) and of the target: ∂L_S/∂G = (cos ĝ − t̂) / |G|, and from there backwards.

    Args:
        layers: of G, in their order.
        u: `(rows, k)`.
        targets: `(rows, d)`.
    """
    passed, h = [], u
    for layer in layers:
        out: torch.Tensor = layer(h)
        passed.append((layer, h, out))
        h = out
    length, target_length = (x.square().sum(1, keepdim=True).clamp_min(_SMALLEST).sqrt() for x in (h, targets))
    direction, target = h / length, targets / target_length
    cosine = (direction * target).sum(1, keepdim=True)
    gradient = (cosine * direction - target) / length
    for layer, given, out in reversed(passed):
        gradient = _BACKWARD[type(layer)](layer, given, out, gradient)
    return 1 - cosine[:, 0], gradient
