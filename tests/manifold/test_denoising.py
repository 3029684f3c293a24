"""A VAE whose encoder brings home features that were moved as domains move them."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.manifold import FeatureGroups, ManifoldConfig, denoising_shifts, fit_manifold
from homefold.manifold.denoising import domain_shifts, moved

CONFIG = ManifoldConfig(latent_dim=3, hidden=(32,), epochs=150, batch_size=32, kl_weight=1e-4)


def test_shifts_have_the_covariance_of_class_means_between_domains():
    torch.manual_seed(0)
    labels, domains = torch.arange(60) % 3, torch.arange(60) // 20
    z = torch.randn(60, 4, dtype=torch.float64)
    expected, freedom = torch.zeros(4, 4, dtype=torch.float64), 0
    for label in range(3):
        means = [z[(labels == label) & (domains == domain)].mean(0) for domain in range(3)]
        centre = sum(means) / 3
        for mean in means:
            expected += torch.outer(mean - centre, mean - centre)
        freedom += 2
    shifts = domain_shifts(z, labels, domains)
    torch.testing.assert_close(shifts.T @ shifts, expected / freedom)


def test_a_class_of_one_domain_says_nothing_and_none_at_all_is_refused():
    z, domains = torch.randn(6, 2), torch.tensor([0, 0, 1, 1, 0, 0])
    labels = torch.tensor([0, 0, 0, 0, 1, 1])
    assert torch.equal(domain_shifts(z, labels, domains), domain_shifts(z[:4], labels[:4], domains[:4]))
    with pytest.raises(ConfigError, match="two source domains or more"):
        domain_shifts(z, labels, torch.zeros(6))


@given(probability=st.sampled_from([0.0, 0.4, 1.0]), seed=st.integers(0, 100))
def test_moved_features_keep_their_length_and_the_share_that_was_asked_for(probability, seed):
    draw = torch.Generator().manual_seed(seed)
    z, shifts = torch.randn(2000, 5, generator=draw), torch.randn(3, 5, generator=draw)
    there = moved(z, shifts, probability, draw)
    torch.testing.assert_close(there.norm(dim=1), z.norm(dim=1), rtol=1e-4, atol=1e-5)
    share = float((there != z).any(dim=1).float().mean())
    assert share == pytest.approx(probability, abs=0.05)


def domains_apart() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Four classes on the sphere; domains lie apart along one direction, of which the classes know nothing."""
    random = torch.Generator().manual_seed(0)
    labels, domains = torch.arange(480) % 4, torch.arange(480) // 160
    centres, direction = torch.randn(4, 12, generator=random), F.normalize(torch.randn(12, generator=random), dim=0)
    z = centres[labels] + 0.3 * torch.randn(480, 12, generator=random)
    z = z - (z @ direction)[:, None] * direction + torch.tensor([-1.0, 0.0, 1.0])[domains][:, None] * direction
    return z, labels, domains, direction


def test_the_encoder_itself_brings_an_unseen_shift_home():
    z, labels, domains, direction = domains_apart()
    held = torch.arange(480) % 8 == 0
    shifts = domain_shifts(z[~held], labels[~held], domains[~held])
    fits = [
        fit_manifold(replace(CONFIG, denoise=denoise), z[~held], z[held], shifts=shifts, seed=0)
        for denoise in (0.0, 0.7)
    ]
    unseen = z[held] + 2.5 * direction
    plain, denoising = (F.cosine_similarity(fit.decode(fit.encode(unseen)), z[held]).mean() for fit in fits)
    assert denoising > plain + 0.02


def test_never_moving_is_the_plain_training_whatever_the_shifts():
    z, labels, domains, _ = domains_apart()
    short = replace(CONFIG, epochs=3)
    plain = fit_manifold(short, z[:400], z[400:], seed=0)
    with_shifts = fit_manifold(short, z[:400], z[400:], shifts=domain_shifts(z, labels, domains), seed=0)
    assert all(torch.equal(value, with_shifts.state_dict()[name]) for name, value in plain.state_dict().items())


def test_what_it_needs_gets_a_sentence():
    groups = FeatureGroups(torch.tensor([0, 1]), torch.tensor([0]), ("a", "b"))
    z = torch.randn(2, 3)
    assert denoising_shifts(CONFIG, z, groups, None) is None
    with pytest.raises(ConfigError, match="needs the domain of every feature"):
        denoising_shifts(replace(CONFIG, denoise=0.5), z, groups, None)
    with pytest.raises(ConfigError, match="give shifts, or set denoise to 0"):
        fit_manifold(replace(CONFIG, denoise=0.5), torch.randn(9, 3), torch.randn(4, 3), seed=0)
    for wrong in ({"denoise": 1.5}, {"denoise": -0.1}):
        with pytest.raises(ConfigError, match="probability from 0"):
            replace(CONFIG, **wrong)
    for wrong in ({"kind": "gan"}, {"per": "class", "shared": True}):
        with pytest.raises(ConfigError, match="denoise trains the encoder of a VAE"):
            replace(CONFIG, denoise=0.5, **wrong)
