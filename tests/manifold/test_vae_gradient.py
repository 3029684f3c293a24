"""The hand-derived gradient of a VAE against autograd."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold.config import ManifoldConfig
from homefold.manifold import fit_manifold
from homefold.manifold.base import SLOPE, mlp
from homefold.manifold.vae import build_vae, vae_loss
from homefold.manifold.vae_gradient import VAEGradient, linear_layers


@pytest.mark.slow
@given(
    hidden=st.lists(st.integers(1, 9), min_size=1, max_size=3),
    feature_dim=st.integers(1, 12),
    latent_dim=st.integers(1, 5),
    rows=st.integers(1, 7),
    kl_weight=st.sampled_from([0.0, 0.001, 0.7]),
    seed=st.integers(0, 99),
)
def test_loss_and_gradients_are_those_of_autograd(hidden, feature_dim, latent_dim, rows, kl_weight, seed):
    torch.manual_seed(seed)
    config = ManifoldConfig(hidden=tuple(hidden), latent_dim=latent_dim)
    model = build_vae(config, feature_dim).double()
    for repeat in range(2):
        x = torch.randn(rows, feature_dim, dtype=torch.float64)
        noise = torch.randn(rows, latent_dim, dtype=torch.float64)
        mean, log_variance = model.posterior(x)
        rebuilt = model.decode(mean + noise * (0.5 * log_variance).exp())
        loss = vae_loss(rebuilt, x, mean, log_variance, kl_weight)
        names, parameters = zip(*model.named_parameters(), strict=True)
        expected = torch.autograd.grad(loss, parameters)
        if repeat == 0:
            layers = linear_layers(model.encoder), linear_layers(model.decoder)
            gradient = VAEGradient(*layers, SLOPE, rows, kl_weight)
        assert gradient(x, noise).item() == pytest.approx(loss.item(), abs=1e-9)
        for name, parameter, right in zip(names, parameters, expected, strict=True):
            torch.testing.assert_close(parameter.grad, right, atol=1e-9, rtol=1e-7, msg=name)


@pytest.mark.parametrize(
    "network",
    [
        nn.Linear(2, 2),
        nn.Sequential(nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.ReLU(), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.1), nn.Linear(2, 2), nn.LeakyReLU(0.2), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2, bias=False), nn.LeakyReLU(0.2), nn.Linear(2, 2)),
        nn.Sequential(nn.Linear(2, 2), nn.LeakyReLU(0.2)),
    ],
)
def test_other_networks_are_left_to_autograd(network):
    assert linear_layers(network) is None


def test_a_plain_mlp_is_recognised():
    assert [layer.out_features for layer in linear_layers(mlp(3, 5, 7))] == [5, 7]


def test_a_fit_by_hand_is_the_fit_by_autograd(monkeypatch):
    random = torch.Generator().manual_seed(0)
    z = torch.randn(3, 16, generator=random).repeat(40, 1) + 0.2 * torch.randn(120, 16, generator=random)
    config = ManifoldConfig(latent_dim=4, hidden=(12,), epochs=5, batch_size=20)

    def fit():
        return fit_manifold(config, z[:100], z[100:], seed=0).state_dict()

    by_hand = fit()
    monkeypatch.setattr("homefold.manifold.vae.linear_layers", lambda network: None)
    for name, value in fit().items():
        torch.testing.assert_close(by_hand[name], value, atol=1e-4, rtol=1e-3)
