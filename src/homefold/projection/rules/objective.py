"""What the search for u* minimises, L_S, and its gradient: by autograd, or by hand for an MLP decoder.

By hand there is no graph and half the arithmetic. G(u) = W h + b with h the last hidden layer. Against a target t̂ of
length one

    G(u) · t̂ = h · p + c,  with p = Wᵀ t̂ and c = b · t̂ found once for each target, and
    |G(u)|²  = h · (q + w) + |b|²,  with q = M h + w, M = Wᵀ W and w = Wᵀ b found once for each decoder,

so that the widest layer is never evaluated while searching: ∂L_S/∂h = (cos/|G|²) q − p/|G|, and from there backwards
through the hidden layers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from weakref import WeakKeyDictionary

import torch
from torch import nn

__all__ = [
    "Decoder",
    "MLPDecoder",
    "Measure",
    "cosine_distance",
    "gradient_function",
    "loss_and_gradient",
    "mlp_decoder",
    "mlp_loss_and_gradient",
    "weights_version",
]

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


def mlp_decoder(decode: Decoder) -> MLPDecoder | None:
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


@dataclass(frozen=True, eq=False)
class _Buffers:
    """Memory for what a step computes; where it is None, fresh memory is taken, for a compiler to do without."""

    hidden: Sequence[torch.Tensor | None]
    backward: Sequence[torch.Tensor | None]
    q: torch.Tensor | None = None
    product: torch.Tensor | None = None


def mlp_loss_and_gradient(
    decoder: MLPDecoder, u: torch.Tensor, p: torch.Tensor, c: torch.Tensor, buffers: _Buffers | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """L_S `(rows,)` at `u: (rows, k)`, and its gradient `(rows, k)`, which the next call with these buffers overwrites.

    p `(rows, h)` and c `(rows,)` are the rows' `MLPDecoder.target_terms`.
    """
    d, at = decoder, buffers or _Buffers([None] * len(decoder.biases), [None] * len(decoder.widths))
    h, hidden = u, []
    for weight, bias, out in zip(d.weights, d.biases, at.hidden, strict=True):
        h = torch.nn.functional.leaky_relu_(torch.addmm(bias, h, weight, out=out), d.slope)
        hidden.append(h)
    q = torch.addmm(d.gram_bias, h, d.gram, out=at.q)
    dot = torch.mul(h, p, out=at.product).sum(1).add_(c)
    square = torch.addcmul(torch.mul(h, q, out=at.product), h, d.gram_bias, out=at.product).sum(1)
    inverse = square.add_(d.bias_square).clamp_min_(_SMALLEST).rsqrt_()
    cosine = dot.mul_(inverse)
    toward = (cosine * inverse).mul_(inverse)
    gradient = torch.mul(q, toward[:, None], out=at.backward[-1]).addcmul_(p, inverse[:, None], value=-1)
    for i in range(len(d.weights) - 1, -1, -1):
        # Written over the gradient: an operation of its own size needs no memory of its own.
        torch.ops.aten.leaky_relu_backward.grad_input(gradient, hidden[i], d.slope, True, grad_input=gradient)
        gradient = torch.mm(gradient, d.weights[i].T, out=at.backward[i])
    return 1 - cosine, gradient


def gradient_function(decode: Decoder, targets: torch.Tensor, repeats: int = 1) -> Measure:
    """Latents `(rows, k)` to the loss and its gradient, by hand for an MLP decoder and by autograd for any other.

    Args:
        decode: G.
        targets: `(n, d)`.
        repeats: rows for each target, one after the other.
    """
    decoder = mlp_decoder(decode)
    if decoder is None or decoder.gram.dtype != targets.dtype:
        rows = targets.repeat_interleave(repeats, dim=0)
        return lambda u: loss_and_gradient(decode, u, rows)
    p, c = (term.repeat_interleave(repeats, dim=0) for term in decoder.target_terms(targets))
    hidden = [targets.new_empty(len(c), len(bias)) for bias in decoder.biases]
    backward = [targets.new_empty(len(c), width) for width in decoder.widths]
    buffers = _Buffers(hidden, backward, torch.empty_like(hidden[-1]), torch.empty_like(hidden[-1]))
    return lambda u: mlp_loss_and_gradient(decoder, u, p, c, buffers)
