"""Domains rehearsed as unseen: the map between two networks, whose images see which, and an encoder that learns it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from homefold.classifier import ClassifierConfig
from homefold.errors import ConfigError, DataError
from homefold.feature_model import fit_feature_model
from homefold.manifold import ManifoldConfig, ManifoldReport, Rehearsed, fit_manifold, rehearse, require_domains
from homefold.manifold.rehearsing import affine_map, seen_instead
from homefold.manifold.vae import VAE
from homefold.projection import ProjectionConfig

CONFIG = ManifoldConfig(latent_dim=3, hidden=(32,), epochs=60, batch_size=64, learning_rate=0.02, kl_weight=1e-4)
DOMAINS = torch.arange(90) // 30


def test_the_map_between_two_networks_is_found_again():
    random = torch.Generator().manual_seed(0)
    x = 5 + torch.randn(400, 6, generator=random, dtype=torch.float64)
    weight = torch.randn(6, 4, generator=random, dtype=torch.float64)
    offset = torch.randn(4, generator=random, dtype=torch.float64)
    found, at = affine_map(x, x @ weight + offset)
    torch.testing.assert_close(found, weight, rtol=0, atol=5e-3)
    unseen = 5 + 3 * torch.randn(50, 6, generator=random, dtype=torch.float64)
    torch.testing.assert_close(unseen @ found + at, unseen @ weight + offset, rtol=0, atol=5e-2)


def test_features_that_do_not_vary_are_carried_to_the_mean():
    y = torch.randn(9, 3)
    weight, offset = affine_map(torch.ones(9, 3), y)
    assert torch.equal(weight, torch.zeros(3, 3, dtype=torch.float64))
    torch.testing.assert_close(offset, y.double().mean(dim=0))


def networks(seed: int = 0) -> tuple[torch.Tensor, dict[int, torch.Tensor], torch.Tensor]:
    """Features by f of 90 images of three domains, by the three networks that lack one, and the rows trained on."""
    random = torch.Generator().manual_seed(seed)
    z = torch.randn(90, 4, generator=random)
    turns = torch.eye(4) + 0.3 * torch.randn(3, 4, 4, generator=random)
    others = {domain: z @ turn + torch.randn(4, generator=random) for domain, turn in enumerate(turns)}
    return z, others, torch.arange(90)[torch.arange(90) % 5 > 0]


def test_a_domain_is_rehearsed_by_its_own_network_carried_over_on_the_others():
    z, others, train = networks()
    prepared = rehearse(z, DOMAINS, train, others.__getitem__, lambda rows: 2 * rows)
    torch.testing.assert_close(prepared, 2 * z, rtol=0, atol=0.1)
    for domain in range(3):
        own = domain == DOMAINS
        shared = train[DOMAINS[train] != domain]
        weight, offset = affine_map(others[domain][shared], z[shared])
        expected = (others[domain][own].double() @ weight + offset).float()
        torch.testing.assert_close(prepared[own], 2 * expected)


def changed_domains(z: torch.Tensor, others: dict[int, torch.Tensor], train: torch.Tensor) -> set[int]:
    """The domains whose rehearsed features are not those of `networks()`."""
    first, same, rows = networks()
    before = rehearse(first, DOMAINS, rows, same.__getitem__, torch.Tensor.float)
    after = rehearse(z, DOMAINS, train, others.__getitem__, torch.Tensor.float)
    return set(DOMAINS[(before != after).any(dim=1)].tolist())


def test_no_domain_hears_of_another_network_or_of_its_own_features_by_f():
    z, others, train = networks()
    assert changed_domains(z, others, train) == set()
    another_network = {**others, 1: others[1] + torch.randn(90, 4)}
    assert changed_domains(z, another_network, train) == {1}
    own_features = torch.where((DOMAINS == 2)[:, None], -z, z)
    assert changed_domains(own_features, others, train) == {0, 1}
    held_out = torch.ones(90, dtype=torch.bool).index_fill(0, train, False)
    held_out_features = torch.where(held_out[:, None], -z, z)
    assert changed_domains(held_out_features, others, train) == set()


@given(probability=st.sampled_from([0.0, 0.4, 1.0]), seed=st.integers(0, 100))
def test_rehearsed_features_are_seen_in_the_share_that_was_asked_for(probability, seed):
    draw = torch.Generator().manual_seed(seed)
    z, rehearsed = torch.randn(2000, 3, generator=draw), torch.randn(2000, 3, generator=draw)
    seen = seen_instead(z, rehearsed, probability, draw)
    replaced = (seen == rehearsed).all(dim=1)
    assert torch.equal(seen[~replaced], z[~replaced])
    assert float(replaced.float().mean()) == pytest.approx(probability, abs=0.05)


def backwards() -> tuple[torch.Tensor, torch.Tensor, Rehearsed]:
    """Features of four classes, 400 to train on, 80 held out, and what stands for them: read backwards, and moved."""
    random = torch.Generator().manual_seed(0)
    z = torch.randn(4, 12, generator=random)[torch.arange(480) % 4] + 0.3 * torch.randn(480, 12, generator=random)
    there = z.flip(1) + 0.5
    return z[:400], z[400:], Rehearsed(there[:400], there[400:])


def test_the_encoder_learns_to_bring_rehearsed_features_home():
    train, held_out, rehearsed = backwards()
    plain = fit_manifold(CONFIG, train, held_out, seed=0)
    home = {}
    for share in (0.5, 1.0):
        fit = fit_manifold(replace(CONFIG, rehearse=share), train, held_out, rehearsed=rehearsed, seed=0)
        home[share] = F.cosine_similarity(fit.decode(fit.encode(rehearsed.held_out)), held_out).mean()
        assert fit.report.rehearsed_home_cosine == pytest.approx(float(home[share]))
        before = F.cosine_similarity(rehearsed.held_out, held_out).mean()
        assert fit.report.rehearsed_cosine == pytest.approx(float(before))
        assert home[share] > before + 0.1
        assert ManifoldReport.from_dict(fit.report.as_dict()) == fit.report
    unaware = F.cosine_similarity(plain.decode(plain.encode(rehearsed.held_out)), held_out).mean()
    assert min(home.values()) > unaware + 0.1
    assert home[1.0] > 0.95
    assert "rehearsed_cosine" not in plain.report.as_dict()


def test_an_encoder_that_always_rehearses_never_sees_a_training_feature(monkeypatch):
    train, held_out, rehearsed = backwards()
    seen = []
    original = VAE.posterior
    # Only training asks for gradients.
    monkeypatch.setattr(
        VAE,
        "posterior",
        lambda self, z: (torch.is_grad_enabled() and seen.append(z.clone()), original(self, z))[1],
    )
    fit_manifold(replace(CONFIG, rehearse=1.0, epochs=2), train, held_out, rehearsed=rehearsed, seed=0)
    rows = [tuple(row) for row in torch.cat(seen).tolist()]
    assert len(rows) == 2 * 6 * 64
    assert set(rows) <= {tuple(row) for row in rehearsed.train.tolist()}
    assert not set(rows) & {tuple(row) for row in train.tolist()}


def test_one_that_cannot_rebuild_features_as_they_are_is_told_what_to_change():
    train, held_out, rehearsed = backwards()
    fit = fit_manifold(replace(CONFIG, rehearse=1.0), train, held_out, rehearsed=rehearsed, seed=0)
    assert fit.report.collapsed
    assert "Set its rehearse below 1" in fit.report.reason


def test_never_rehearsing_is_the_plain_training_whatever_is_given():
    train, held_out, rehearsed = backwards()
    short = replace(CONFIG, epochs=3)
    plain = fit_manifold(short, train, held_out, seed=0)
    given_more = fit_manifold(short, train, held_out, rehearsed=rehearsed, seed=0)
    assert all(torch.equal(value, given_more.state_dict()[name]) for name, value in plain.state_dict().items())
    assert plain.report == given_more.report


def test_what_it_needs_gets_a_sentence():
    train, held_out, rehearsed = backwards()
    asked = replace(CONFIG, rehearse=0.5)
    with pytest.raises(ConfigError, match="here are features alone: fit a Homefold on images, or set rehearse to 0"):
        fit_manifold(asked, train, held_out, seed=0)
    with pytest.raises(DataError, match=r"one rehearsed feature for each feature.*\(400, 12\) and \(80, 12\)"):
        fit_manifold(asked, train, held_out, rehearsed=Rehearsed(rehearsed.train[1:], rehearsed.held_out), seed=0)
    with pytest.raises(ConfigError, match="two source domains or more: give a second one, or set rehearse to 0"):
        require_domains(asked, 1)
    require_domains(asked, 2)
    require_domains(CONFIG, 1)
    for wrong in (1.5, -0.1):
        with pytest.raises(ConfigError, match=r"rehearse is a probability from 0 \(never\) to 1 \(always\)"):
            replace(CONFIG, rehearse=wrong)
    for wrong in ({"kind": "gan"}, {"kind": "nearest"}, {"per": "class"}, {"per": "class", "shared": True}):
        with pytest.raises(ConfigError, match=r"rehearse trains the encoder of one VAE.*or kind to vae and per to all"):
            replace(asked, **wrong)
    with pytest.raises(ConfigError, match=r"rehearse and denoise both choose.*set one of them to 0"):
        replace(asked, denoise=0.5)


def test_features_without_images_cannot_be_rehearsed():
    z, y = torch.randn(20, 4), torch.arange(20) % 2
    with pytest.raises(ConfigError, match="fit a Homefold on images, or set rehearse to 0"):
        fit_feature_model(
            z, y, z, y,
            class_names=("a", "b"), manifold_config=ManifoldConfig(rehearse=0.5),
            classifier_config=ClassifierConfig(), projection=ProjectionConfig(), normalise=True, seed=0,
            device=torch.device("cpu"),
        )  # fmt: skip
