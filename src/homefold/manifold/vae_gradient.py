"""A VAE's loss and the gradients of its weights, derived by hand for MLPs: no graph, and buffers that every step uses.

With h_0 = x, h_l = leaky(h_{l-1} W_lᵀ + b_l), the encoder's output (μ, log σ²) and u = μ + ε σ, the loss is

    L = mean(|r| + r²) + β Σ (μ² + σ² - log σ² - 1) / (2 n),  with r = G(u) - x over n rows of d coordinates;
    ∂L/∂G(u) = (sign r + 2 r) / (n d),  ∂L/∂μ = ∂L/∂u + β μ / n,
    ∂L/∂log σ² = (∂L/∂u) ε σ / 2 + β (σ² - 1) / (2 n),

and through a layer ∂L/∂W = gᵀ h, ∂L/∂b = Σ g, ∂L/∂h = g W. On a CPU a step takes about two thirds of the time that
autograd needs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

__all__ = ["VAEGradient", "linear_layers"]


def linear_layers(network: nn.Module) -> list[nn.Linear] | None:
    """The layers of an MLP with equal LeakyReLUs between them; None for any other network."""
    if not isinstance(network, nn.Sequential):
        return None
    layers, between = list(network)[::2], list(network)[1::2]
    linear = [layer for layer in layers if type(layer) is nn.Linear and layer.bias is not None]
    leaky = {layer.negative_slope for layer in between if type(layer) is nn.LeakyReLU}
    usual = len(linear) == len(layers) == len(between) + 1 and len(leaky) == 1 and min(leaky) > 0
    return linear if usual and all(type(layer) is nn.LeakyReLU for layer in between) else None


class _Layers:
    """Linear layers with LeakyReLU of `slope` between them, and what a step on `rows` rows keeps of them."""

    def __init__(self, layers: Sequence[nn.Linear], slope: float, rows: int) -> None:
        self._layers, self._slope = layers, slope
        self._out = [layer.weight.new_empty(rows, layer.out_features) for layer in layers]
        self._back = [layer.weight.new_empty(rows, layer.in_features) for layer in layers]
        for layer in layers:
            layer.weight.grad, layer.bias.grad = torch.empty_like(layer.weight), torch.empty_like(layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self._input = h = x
        for layer, out in zip(self._layers, self._out, strict=True):
            h = torch.addmm(layer.bias, h, layer.weight.T, out=out)
            if layer is not self._layers[-1]:
                h = torch.nn.functional.leaky_relu_(h, self._slope)
        return h

    def backward(self, g: torch.Tensor, *, to_input: bool) -> torch.Tensor:
        """Set the gradients of all weights, and return that of the input if it is wanted."""
        for i in range(len(self._layers) - 1, -1, -1):
            layer = self._layers[i]
            assert layer.weight.grad is not None
            assert layer.bias.grad is not None
            torch.mm(g.T, self._out[i - 1] if i else self._input, out=layer.weight.grad)
            torch.sum(g, dim=0, out=layer.bias.grad)
            if i or to_input:
                g = torch.mm(g, layer.weight, out=self._back[i])
            if i:
                torch.ops.aten.leaky_relu_backward.grad_input(g, self._out[i - 1], self._slope, True, grad_input=g)
        return g


class VAEGradient:
    """Sets `grad` of all weights of an MLP VAE, whose layers `linear_layers` found, for batches of a fixed size."""

    def __init__(
        self, encoder: Sequence[nn.Linear], decoder: Sequence[nn.Linear], slope: float, rows: int, kl_weight: float
    ) -> None:
        self._encoder, self._decoder = _Layers(encoder, slope, rows), _Layers(decoder, slope, rows)
        self._beta, self._latent_dim = kl_weight, decoder[0].in_features
        self._to_code = encoder[0].weight.new_empty(rows, 2 * self._latent_dim)

    @torch.no_grad()
    def __call__(self, x: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        """The loss of `x: (rows, d)` with ε = `noise: (rows, latent_dim)`."""
        n, k, share = len(x), self._latent_dim, self._beta / len(x)
        code = self._encoder.forward(x)
        mean, log_variance = code[:, :k], code[:, k:]
        deviation = (0.5 * log_variance).exp_()
        rest = self._decoder.forward(torch.addcmul(mean, noise, deviation)).sub_(x)
        g = rest.sign().add_(rest, alpha=2)
        flat = rest.view(-1)
        # |r| + r² = (sign r + 2 r) r - r²
        loss = (torch.dot(g.view(-1), flat) - torch.dot(flat, flat)) / rest.numel()
        variance = deviation.square()
        loss += 0.5 * share * (mean.square().sum() + (variance - log_variance).sum() - n * k)
        to_u = self._decoder.backward(g.div_(rest.numel()), to_input=True)
        torch.add(to_u, mean, alpha=share, out=self._to_code[:, :k])
        by_noise = torch.mul(to_u, noise).mul_(deviation)
        torch.add(by_noise, variance.sub_(1), alpha=share, out=self._to_code[:, k:]).mul_(0.5)
        self._encoder.backward(self._to_code, to_input=False)
        return loss
