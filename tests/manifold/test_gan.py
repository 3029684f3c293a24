"""The GAN covers all clusters, has no encoder, and says when it collapsed."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError, ManifoldCollapsedError, TrainingDivergedError
from homefold.manifold import Manifold, ManifoldConfig, build_manifold, fit_manifold, paper_manifold_config
from homefold.manifold.gan import (
    coverage,
    discriminator_loss,
    generator_loss,
    gradient_penalty,
    mean_pairwise_distance,
)
from homefold.runtime.seeding import generator
from homefold.store.files import read_state, write_state

DIM, CLASSES = 32, 5
QUICK = ManifoldConfig(kind="gan", latent_dim=8, hidden=(64, 64), epochs=60, batch_size=64, bank_size=200)


def clustered(n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Points around class centres on the sphere of radius √DIM, and their classes."""
    labels = torch.arange(n) % CLASSES
    centres = F.normalize(torch.randn(CLASSES, DIM, generator=generator(0, "centres")), dim=1)
    spread = torch.randn(n, DIM, generator=generator(0, "spread")) / math.sqrt(DIM)
    return F.normalize(centres[labels] + 0.2 * spread, dim=1) * math.sqrt(DIM), labels


@pytest.fixture(scope="module")
def fitted() -> Manifold:
    z, _ = clustered(800)
    return fit_manifold(QUICK, z[:640], z[640:], seed=0)


def test_it_covers_held_out_features_with_nearly_their_diversity(fitted: Manifold) -> None:
    report = fitted.report
    assert not report.collapsed
    assert report.reconstruction_cosine > 0.93
    assert report.explained > 0.85
    assert report.diversity is not None
    assert 0.8 < report.diversity < 1.2
    fitted.require_usable()


def test_every_cluster_gets_its_share_of_samples(fitted: Manifold) -> None:
    z, labels = clustered(800)
    samples = F.normalize(fitted.sample(1000, generator(1, "sample")), dim=1)
    nearest = (samples @ F.normalize(z, dim=1).T).argmax(dim=1)
    shares = torch.bincount(labels[nearest], minlength=CLASSES) / 1000
    assert float(shares.min()) > 0.1


def test_two_runs_with_one_seed_give_the_same_bytes() -> None:
    z, _ = clustered(200)
    config = dataclasses.replace(QUICK, epochs=3)
    first, again, other = (fit_manifold(config, z[:150], z[150:], seed=s).state_dict() for s in (1, 1, 2))
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["decoder.0.weight"], other["decoder.0.weight"])


def test_it_has_no_encoder_and_says_what_to_use_instead(fitted: Manifold) -> None:
    assert not fitted.has_encoder
    with pytest.raises(ConfigError, match=r"no encoder.*random latents"):
        fitted.encode(torch.zeros(1, DIM))


def test_the_bank_holds_prior_samples_and_their_decodings(fitted: Manifold) -> None:
    assert fitted.bank_latents.shape == (200, 8)
    assert float(fitted.bank_latents.std()) == pytest.approx(1, abs=0.1)
    torch.testing.assert_close(fitted.bank_features, fitted.decode(fitted.bank_latents))


def test_a_state_survives_the_disk(fitted: Manifold, tmp_path: Path) -> None:
    write_state(tmp_path / "state.safetensors", fitted.state_dict())
    copy = build_manifold(QUICK, DIM)
    copy.load_state_dict(read_state(tmp_path / "state.safetensors"))
    u = torch.randn(5, 8, generator=generator(0, "u"))
    assert torch.equal(copy.decode(u), fitted.decode(u))
    assert torch.equal(copy.bank_latents, fitted.bank_latents)


def test_a_generator_stuck_at_one_point_is_reported_and_refused() -> None:
    z, _ = clustered(200)
    # rate times decay is one: every step wipes the weights, and the output no longer depends on the latent
    config = dataclasses.replace(QUICK, epochs=5, learning_rate=0.01, weight_decay=100, schedule="constant")
    model = fit_manifold(config, z[:150], z[150:], seed=0)
    assert model.report.diversity is not None
    assert model.report.diversity < 0.05
    with pytest.raises(ManifoldCollapsedError, match="gradient_penalty"):
        model.require_usable()


def test_constant_features_are_named_as_the_fault() -> None:
    z = torch.ones(40, DIM)
    model = fit_manifold(dataclasses.replace(QUICK, epochs=1), z[:30], z[30:], seed=0)
    assert model.report.explained == 0.0
    assert model.report.diversity is None
    with pytest.raises(ManifoldCollapsedError, match="source features hardly differ"):
        model.require_usable()


def test_a_diverging_training_stops_with_the_epoch_and_advice() -> None:
    z, _ = clustered(200)
    config = dataclasses.replace(QUICK, epochs=3, learning_rate=1e30, schedule="constant")
    with pytest.raises(TrainingDivergedError, match=r"by epoch 1 of 3.*lower learning_rate"):
        fit_manifold(config, z[:150], z[150:], seed=0)


def test_the_penalty_is_the_squared_length_of_the_gradient_of_each_row() -> None:
    real = torch.tensor([[1.0, 2.0], [3.0, -1.0]], requires_grad=True)
    scores = real.square().sum(dim=1, keepdim=True)
    assert float(gradient_penalty(scores, real).detach()) == pytest.approx(4 * (5 + 10) / 2)


def test_an_undecided_discriminator_costs_two_ln_2() -> None:
    zero = torch.zeros(4, 1)
    assert float(discriminator_loss(zero, zero)) == pytest.approx(2 * math.log(2))
    assert float(generator_loss(zero)) == pytest.approx(math.log(2))
    assert float(discriminator_loss(zero + 20, zero - 20)) < 1e-6
    assert float(generator_loss(zero - 20)) == pytest.approx(20)


def test_coverage_is_the_mean_of_the_best_cosines() -> None:
    real = torch.tensor([[1.0, 0.0], [0.0, 2.0]])
    assert coverage(real, torch.tensor([[3.0, 0.0], [1.0, 1.0]])) == pytest.approx((1 + math.sqrt(0.5)) / 2)


def test_the_mean_pairwise_distance_equals_a_double_loop() -> None:
    z = torch.randn(7, 3, generator=generator(0, "z"))
    pairs = [1 - F.cosine_similarity(z[i], z[j], dim=0) for i in range(7) for j in range(7) if i != j]
    assert mean_pairwise_distance(z) == pytest.approx(float(torch.stack(pairs).mean()), rel=1e-5)
    assert mean_pairwise_distance(torch.ones(5, 3)) == pytest.approx(0, abs=1e-12)


def test_the_papers_settings_are_those_it_prints() -> None:
    config = paper_manifold_config("gan")
    assert (config.latent_dim, config.learning_rate, config.epochs, config.batch_size) == (64, 2e-4, 450, 64)


def test_sgd_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"gan does not train with sgd; set manifold\.optimizer=adamw\.$"):
        ManifoldConfig(kind="gan", optimizer="sgd")
