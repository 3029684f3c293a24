"""The gradient written layer by layer is autograd's."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from homefold.config.manifold import ManifoldConfig
from homefold.errors import ConfigError
from homefold.export.gradient import decoder_layers, loss_and_gradient
from homefold.manifold import build_manifold
from homefold.projection.rules.objective import loss_and_gradient as by_autograd


@pytest.mark.parametrize("kind", ["vae", "conv-vae", "gan"])
def test_every_decoder_of_ours_has_the_gradient_that_autograd_finds(kind: str) -> None:
    torch.manual_seed(0)
    manifold = build_manifold(ManifoldConfig(kind=kind, latent_dim=6), 64).double()
    u, targets = torch.randn(5, 6).double(), torch.randn(5, 64).double()
    loss, gradient = loss_and_gradient(decoder_layers(manifold), u, targets)
    expected_loss, expected = by_autograd(manifold.decode, u, targets)
    torch.testing.assert_close(loss, expected_loss)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("layer", [nn.ReLU(), nn.Tanh(), nn.Sigmoid(), nn.LeakyReLU(0.3)])
def test_every_activation_has_the_gradient_that_autograd_finds(layer: nn.Module) -> None:
    torch.manual_seed(0)
    decoder = nn.Sequential(nn.Linear(3, 8), layer, nn.Linear(8, 4)).double()
    u, targets = torch.randn(7, 3).double(), torch.randn(7, 4).double()
    _, gradient = loss_and_gradient(list(decoder), u, targets)
    torch.testing.assert_close(gradient, by_autograd(decoder, u, targets)[1])


def test_a_layer_without_a_known_gradient_is_refused_by_its_name() -> None:
    manifold = build_manifold(ManifoldConfig(kind="vae", latent_dim=6), 64)
    manifold.decoder = nn.Sequential(nn.Linear(6, 64), nn.Softplus())
    with pytest.raises(ConfigError, match="the gradient of Softplus in the decoder"):
        decoder_layers(manifold)
