"""The search's loss and gradient for an MLP decoder, derived by hand: no graph, half the arithmetic.

G(u) = W h + b with h the last hidden layer. Against a target t̂ of length one

    G(u) · t̂ = h · p + c,  with p = Wᵀ t̂ and c = b · t̂ found once for each target, and
    |G(u)|²  = h · (q + w) + |b|²,  with q = M h + w, M = Wᵀ W and w = Wᵀ b found once for each decoder,

so that the widest layer is never evaluated while searching: ∂L_S/∂h = (cos/|G|²) q − p/|G|, and from there backwards
through the hidden layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import nn

__all__ = ["MLPDecoder", "MLPGradient", "mlp_decoder", "mlp_loss_and_gradient", "weights_version"]

_SMALLEST = 1e-24


@dataclass(frozen=True, eq=False)
class MLPDecoder:
    """A decoder of linear layers with LeakyReLU between them, prepared for the search.

    Args:
        weights: of the hidden layers, `(in, out)` each, contiguous.
        biases: of the hidden layers, `(out,)` each.
        gram: M `(h, h)` of the output layer.
        gram_bias: w `(h,)`.
        bias_square: |b|², a scalar.
        output_weight: W `(d, h)`.
        output_bias: b `(d,)`.
        slope: of the LeakyReLU for negative inputs; positive.
    """

    weights: tuple[torch.Tensor, ...]
    biases: tuple[torch.Tensor, ...]
    gram: torch.Tensor
    gram_bias: torch.Tensor
    bias_square: torch.Tensor
    output_weight: torch.Tensor
    output_bias: torch.Tensor
    slope: float

    @property
    def widths(self) -> tuple[int, ...]:
        """Latent size, then the hidden layers'."""
        return (self.weights[0].shape[0], *(len(bias) for bias in self.biases))

    def target_terms(self, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """p `(n, h)` and c `(n,)` of `targets: (n, d)`; a target of zeros is similar to nothing."""
        unit = targets / targets.square().sum(1, keepdim=True).clamp_min(_SMALLEST).sqrt()
        return unit @ self.output_weight, unit @ self.output_bias


_known: WeakKeyDictionary[nn.Module, tuple[tuple[object, ...], MLPDecoder | None]] = WeakKeyDictionary()


def weights_version(tensors: Iterable[torch.Tensor]) -> tuple[object, ...]:
    """What changes whenever one of the tensors is replaced or written to (unless it was made for inference)."""
    return tuple((x.data_ptr(), 0 if x.is_inference() else x._version, x.shape, x.dtype, x.device) for x in tensors)


def mlp_decoder(decode: Callable[[torch.Tensor], torch.Tensor]) -> MLPDecoder | None:
    """`decode` prepared for the search where it is such an MLP, else None. Remembered while its weights stay."""
    if not isinstance(decode, nn.Sequential):
        return None
    version = weights_version(decode.parameters())
    known = _known.get(decode)
    if known is None or known[0] != version:
        known = _known[decode] = version, _prepare(decode)
    return known[1]


def _prepare(decode: nn.Sequential) -> MLPDecoder | None:
    layers = list(decode)
    activations = layers[1::2]
    linear = [layer for layer in layers[::2] if isinstance(layer, nn.Linear) and layer.bias is not None]
    if len(layers) < 3 or len(layers) % 2 == 0 or len(linear) != len(layers[::2]):
        return None
    slopes = {layer.negative_slope if type(layer) is nn.LeakyReLU else 0.0 for layer in activations}
    if len(slopes) != 1 or not min(slopes) > 0:
        return None
    with torch.no_grad():
        *hidden, output = [(layer.weight.detach(), layer.bias.detach()) for layer in linear]
        weight, bias = output
        return MLPDecoder(
            weights=tuple(w.T.contiguous() for w, _ in hidden),
            biases=tuple(b.clone() for _, b in hidden),
            gram=weight.T @ weight,
            gram_bias=weight.T @ bias,
            bias_square=bias @ bias,
            output_weight=weight.clone(),
            output_bias=bias.clone(),
            slope=slopes.pop(),
        )


class MLPGradient:
    """L_S and its gradient at latents of a fixed number of rows, computed in buffers that every step uses again.

    Args:
        decoder: G.
        targets: `(n, d)`.
        repeats: rows for each target, one after the other.
    """

    def __init__(self, decoder: MLPDecoder, targets: torch.Tensor, repeats: int = 1) -> None:
        self.decoder = decoder
        p, c = decoder.target_terms(targets)
        self._p, self._c = p.repeat_interleave(repeats, dim=0), c.repeat_interleave(repeats)
        rows = len(self._c)
        self._hidden = [targets.new_empty(rows, len(bias)) for bias in decoder.biases]
        self._backward = [targets.new_empty(rows, width) for width in decoder.widths]
        self._q, self._product = torch.empty_like(self._hidden[-1]), torch.empty_like(self._hidden[-1])

    def __call__(self, u: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """L_S `(rows,)` at `u: (rows, k)`, and its gradient `(rows, k)`, which the next call overwrites."""
        d = self.decoder
        h = u
        for weight, bias, out in zip(d.weights, d.biases, self._hidden, strict=True):
            h = torch.nn.functional.leaky_relu_(torch.addmm(bias, h, weight, out=out), d.slope)
        q = torch.addmm(d.gram_bias, h, d.gram, out=self._q)
        dot = torch.mul(h, self._p, out=self._product).sum(1).add_(self._c)
        square = torch.addcmul(torch.mul(h, q, out=self._product), h, d.gram_bias, out=self._product).sum(1)
        inverse = square.add_(d.bias_square).clamp_min_(_SMALLEST).rsqrt_()
        cosine = dot.mul_(inverse)
        toward = (cosine * inverse).mul_(inverse)
        gradient = self._backward[-1]
        torch.mul(q, toward[:, None], out=gradient).addcmul_(self._p, inverse[:, None], value=-1)
        for i in range(len(d.weights) - 1, -1, -1):
            torch.ops.aten.leaky_relu_backward.grad_input(gradient, self._hidden[i], d.slope, True, grad_input=gradient)
            gradient = torch.mm(gradient, d.weights[i].T, out=self._backward[i])
        return 1 - cosine, gradient


def mlp_loss_and_gradient(
    decoder: MLPDecoder, u: torch.Tensor, p: torch.Tensor, c: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """What `MLPGradient` computes, written without buffers for a compiler to fuse.

    Args:
        decoder: G.
        u: `(rows, k)`.
        p: `(rows, h)`, and
        c: `(rows,)`, see `MLPDecoder.target_terms`.
    """
    h, positive = u, []
    for weight, bias in zip(decoder.weights, decoder.biases, strict=True):
        h = torch.nn.functional.leaky_relu(torch.addmm(bias, h, weight), decoder.slope)
        positive.append(h > 0)
    q = torch.addmm(decoder.gram_bias, h, decoder.gram)
    square = (h * (q + decoder.gram_bias)).sum(1) + decoder.bias_square
    inverse = square.clamp_min(_SMALLEST).rsqrt()
    cosine = ((h * p).sum(1) + c) * inverse
    gradient = (cosine * inverse * inverse)[:, None] * q - inverse[:, None] * p
    for weight, where in zip(reversed(decoder.weights), reversed(positive), strict=True):
        gradient = torch.where(where, gradient, decoder.slope * gradient) @ weight.T
    return 1 - cosine, gradient
