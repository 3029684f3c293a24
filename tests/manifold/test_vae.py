"""The VAE learns, says when it did not, and gives the same bytes for the same seed."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from homefold.errors import ConfigError, DataError, ManifoldCollapsedError, ModelFileError, TrainingDivergedError
from homefold.manifold import (
    VAE,
    Manifold,
    ManifoldConfig,
    ManifoldReport,
    build_manifold,
    fit_manifold,
    list_manifolds,
    paper_manifold_config,
    vae_loss,
)
from homefold.manifold.training import training_rate
from homefold.manifold.vae import even_subset
from homefold.runtime.seeding import generator
from homefold.store.files import read_state, write_state
from recorder import Recorder

DIM = 64
QUICK = ManifoldConfig(latent_dim=8, hidden=(64, 64), epochs=40, batch_size=64, bank_size=100)


def clustered(n: int, dim: int = DIM, classes: int = 5, noise: float = 0.2, seed: int = 0) -> torch.Tensor:
    """Points around class centres on the sphere of radius √dim."""
    centres = F.normalize(torch.randn(classes, dim, generator=generator(seed, "centres")), dim=1)
    spread = torch.randn(n, dim, generator=generator(seed, "spread")) / math.sqrt(dim)
    return F.normalize(centres[torch.arange(n) % classes] + noise * spread, dim=1) * math.sqrt(dim)


@pytest.fixture(scope="module")
def features() -> tuple[torch.Tensor, torch.Tensor]:
    z = clustered(800)
    return z[:640], z[640:]


@pytest.fixture(scope="module")
def fitted(features: tuple[torch.Tensor, torch.Tensor]) -> Manifold:
    return fit_manifold(QUICK, *features, seed=3)


def slow_vae_loss(
    x_hat: torch.Tensor, x: torch.Tensor, mean: torch.Tensor, log_variance: torch.Tensor, w: float
) -> float:
    n, d = x.shape
    reconstruction = kl = 0.0
    for i in range(n):
        for j in range(d):
            error = float(x_hat[i, j] - x[i, j])
            reconstruction += (abs(error) + error * error) / (n * d)
        for j in range(mean.shape[1]):
            m, v = float(mean[i, j]), float(log_variance[i, j])
            kl += 0.5 * (m * m + math.exp(v) - v - 1) / n
    return reconstruction + w * kl


def random_loss_inputs(n: int, d: int, k: int, seed: int) -> tuple[torch.Tensor, ...]:
    draw = generator(seed, "loss")
    return tuple(torch.randn(n, m, generator=draw, dtype=torch.float64) for m in (d, d, k, k))


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 4), st.floats(0, 10), st.integers(0, 1000))
def test_the_loss_equals_a_double_loop(n: int, d: int, k: int, weight: float, seed: int) -> None:
    inputs = random_loss_inputs(n, d, k, seed)
    assert float(vae_loss(*inputs, weight)) == pytest.approx(slow_vae_loss(*inputs, weight), rel=1e-9)


def test_the_loss_has_its_closed_form_values() -> None:
    zero = torch.zeros(3, 2)
    assert float(vae_loss(zero + 2, zero, zero, zero, 1.0)) == 2 + 4
    assert float(vae_loss(zero, zero, zero + 3, zero, 0.5)) == pytest.approx(0.5 * 2 * 9 / 2)
    expected = 2 * 0.5 * (4 - math.log(4) - 1)
    assert float(vae_loss(zero, zero, zero, zero + math.log(4), 1.0)) == pytest.approx(expected)


def test_the_kl_weight_means_the_same_for_any_batch_size_and_feature_dimension() -> None:
    x_hat, x, mean, log_variance = random_loss_inputs(4, 6, 3, 0)
    once = vae_loss(x_hat, x, mean, log_variance, 0.7)
    twice = vae_loss(*(t.repeat(2, 1) for t in (x_hat, x, mean, log_variance)), 0.7)
    wider = vae_loss(x_hat.repeat(1, 3), x.repeat(1, 3), mean, log_variance, 0.7)
    torch.testing.assert_close(twice, once)
    torch.testing.assert_close(wider, once)


def test_the_loss_has_the_right_gradient() -> None:
    inputs = tuple(t.requires_grad_() for t in random_loss_inputs(3, 4, 2, 1))
    assert torch.autograd.gradcheck(lambda *t: vae_loss(*t, 0.3), inputs)


def test_it_reconstructs_clustered_features_far_better_than_their_mean(fitted: Manifold) -> None:
    report = fitted.report
    assert report.reconstruction_cosine > 0.95
    assert report.baseline_cosine < 0.6
    assert report.explained > 0.9
    assert report.active_units is not None
    assert report.active_units >= 3
    assert report.kl_per_sample is not None
    assert report.kl_per_sample > 1
    assert not report.collapsed
    fitted.require_usable()


def test_the_report_holds_what_the_kept_weights_give(
    fitted: Manifold, features: tuple[torch.Tensor, torch.Tensor]
) -> None:
    train, held_out = features
    rebuilt = fitted.decode(fitted.encode(held_out))
    error = (rebuilt - held_out).abs()
    assert fitted.report.reconstruction == pytest.approx(float((error + error**2).mean()), rel=1e-5)
    cosine = F.cosine_similarity(rebuilt, held_out).mean()
    assert fitted.report.reconstruction_cosine == pytest.approx(float(cosine), rel=1e-5)
    baseline = F.cosine_similarity(held_out, train.mean(0, keepdim=True)).mean()
    assert fitted.report.baseline_cosine == pytest.approx(float(baseline), rel=1e-5)


@pytest.mark.slow
def test_it_keeps_the_epoch_that_reconstructs_held_out_features_best(
    features: tuple[torch.Tensor, torch.Tensor],
) -> None:
    # a constant, far too high rate makes the loss jump up and down
    config = dataclasses.replace(QUICK, epochs=12, schedule="constant", learning_rate=0.05)
    last_was_best = []
    for seed in range(6):
        recorder = Recorder()
        model = fit_manifold(config, *features, seed=seed, reporter=recorder)
        seen = [facts["held_out"] for facts in recorder.facts]
        assert recorder.total == len(seen) == 12
        assert model.report.best_epoch == seen.index(min(seen)) + 1
        assert model.report.reconstruction == pytest.approx(min(seen), rel=1e-5)
        last_was_best.append(min(seen) == seen[-1])
    assert not all(last_was_best)


def test_too_large_a_kl_weight_collapses_and_the_refusal_names_the_setting(
    features: tuple[torch.Tensor, torch.Tensor],
) -> None:
    model = fit_manifold(dataclasses.replace(QUICK, kl_weight=50, epochs=10), *features, seed=0)
    assert model.report.collapsed
    assert model.report.active_units == 0
    with pytest.raises(ManifoldCollapsedError, match=r"Lower manifold.kl_weight \(it is 50"):
        model.require_usable()


def test_too_little_training_is_not_blamed_on_a_sound_kl_weight(
    features: tuple[torch.Tensor, torch.Tensor],
) -> None:
    config = dataclasses.replace(QUICK, epochs=1, learning_rate=1e-7)
    with pytest.raises(ManifoldCollapsedError, match=r"Raise manifold.epochs .*it is 1\) or manifold.learning_rate"):
        fit_manifold(config, *features, seed=0).require_usable()


def test_constant_features_are_named_as_the_fault() -> None:
    z = torch.ones(40, DIM) + 1e-5 * torch.randn(40, DIM, generator=generator(0, "noise"))
    model = fit_manifold(dataclasses.replace(QUICK, epochs=2), z[:30], z[30:], seed=0)
    assert model.report.explained == 0.0
    with pytest.raises(ManifoldCollapsedError, match="source features hardly differ"):
        model.require_usable()


def test_two_runs_with_one_seed_give_the_same_bytes_and_another_seed_does_not(
    features: tuple[torch.Tensor, torch.Tensor],
) -> None:
    config = dataclasses.replace(QUICK, epochs=3)
    first, again, other = (fit_manifold(config, *features, seed=s).state_dict() for s in (1, 1, 2))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["decoder.0.weight"], other["decoder.0.weight"])


def test_fitting_leaves_the_global_random_state_alone(features: tuple[torch.Tensor, torch.Tensor]) -> None:
    before = torch.get_rng_state()
    fit_manifold(dataclasses.replace(QUICK, epochs=1), *features, seed=0)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", ["vae", "conv-vae", "gan"])
def test_decoding_a_row_gives_the_same_bytes_wherever_it_stands_in_a_tile(kind: str) -> None:
    model = build_manifold(ManifoldConfig(kind=kind), 256)  # type: ignore[arg-type]
    u = torch.randn(64, model.latent_dim, generator=generator(0, "u"))
    order = torch.randperm(64, generator=generator(0, "order"))
    assert torch.equal(model.decode(u[order]), model.decode(u)[order])
    crowded = torch.full_like(u, 100.0)
    crowded[17] = u[5]
    assert torch.equal(model.decode(crowded)[17], model.decode(u)[5])


def test_a_state_survives_the_disk_whatever_its_bank_size(fitted: Manifold, tmp_path: Path) -> None:
    write_state(tmp_path / "state.safetensors", fitted.state_dict())
    copy = build_manifold(QUICK, DIM)
    copy.load_state_dict(read_state(tmp_path / "state.safetensors"))
    assert copy.bank_latents.shape == (100, 8)
    u = torch.randn(5, 8, generator=generator(0, "u"))
    assert torch.equal(copy.decode(u), fitted.decode(u))
    assert torch.equal(copy.bank_features, fitted.bank_features)


def test_a_state_of_other_dimensions_is_refused(fitted: Manifold) -> None:
    with pytest.raises(RuntimeError, match="bank_features"):
        build_manifold(QUICK, DIM + 1).load_state_dict(fitted.state_dict())


def test_the_bank_holds_posterior_means_of_training_features_and_their_decodings(
    fitted: Manifold, features: tuple[torch.Tensor, torch.Tensor]
) -> None:
    means = fitted.encode(features[0])
    distance, source = torch.cdist(fitted.bank_latents, means, compute_mode="donot_use_mm_for_euclid_dist").min(dim=1)
    assert float(distance.max()) < 1e-4
    assert len(source.unique()) == 100
    torch.testing.assert_close(fitted.bank_features, fitted.decode(fitted.bank_latents))


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 500), st.integers(1, 500), st.integers(0, 99))
def test_an_even_subset_is_distinct_in_range_and_evenly_spaced(n: int, size: int, seed: int) -> None:
    chosen = even_subset(n, size, generator(seed, "subset"))
    assert len(chosen) == min(n, size) == len(chosen.unique())
    assert 0 <= int(chosen.min()) <= int(chosen.max()) < n
    spacing = max(1, n / size)
    edges = torch.cat([torch.tensor([-1]), chosen, torch.tensor([n])])
    assert int(edges.diff().max()) <= math.ceil(spacing) + 1


def test_a_report_survives_json(fitted: Manifold) -> None:
    values = json.loads(json.dumps(fitted.report.as_dict(), allow_nan=False))
    assert ManifoldReport.from_dict(values) == fitted.report
    assert ManifoldReport.from_dict({**values, "a_later_fact": 1}) == fitted.report
    del values["collapsed"]
    with pytest.raises(ModelFileError, match="report lacks collapsed"):
        ManifoldReport.from_dict(values)


def test_an_unfitted_manifold_has_no_report() -> None:
    with pytest.raises(ConfigError, match="no report"):
        build_manifold(QUICK, DIM).require_usable()


def test_a_fitted_manifold_is_frozen_but_lets_gradients_through_to_the_latent(fitted: Manifold) -> None:
    assert not fitted.training
    assert not any(parameter.requires_grad for parameter in fitted.parameters())
    u = torch.zeros(2, 8, requires_grad=True)
    fitted.decode(u).square().sum().backward()
    assert u.grad is not None
    assert float(u.grad.abs().sum()) > 0


def test_the_posterior_is_far_narrower_than_the_prior_where_the_latent_is_used(
    fitted: Manifold, features: tuple[torch.Tensor, torch.Tensor]
) -> None:
    assert isinstance(fitted, VAE)
    mean, log_variance = fitted.posterior(features[1])
    used = mean.var(dim=0) > 0.5
    assert int(used.sum()) >= 3
    assert float(log_variance.exp()[:, used].mean()) < 0.1


def test_samples_follow_their_generator_and_look_like_features(
    fitted: Manifold, features: tuple[torch.Tensor, torch.Tensor]
) -> None:
    first, again = (fitted.sample(300, generator(7, "sample")) for _ in range(2))
    assert torch.equal(first, again)
    nearest = (F.normalize(first, dim=1) @ F.normalize(features[0], dim=1).T).amax(dim=1)
    assert float(nearest.mean()) > 0.7


def test_a_diverging_loss_stops_with_the_epoch_and_advice(
    features: tuple[torch.Tensor, torch.Tensor],
) -> None:
    config = dataclasses.replace(QUICK, optimizer="sgd", learning_rate=1e6, schedule="constant")
    with pytest.raises(TrainingDivergedError, match=r"in epoch 1 of 40.*lower learning_rate"):
        fit_manifold(config, *features, seed=0)


def parameters(model: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


def test_the_papers_convolutional_vae_has_the_papers_parameter_count() -> None:
    trunk, head, classifier = 11_176_512, 512 * 256 + 256, 256 * 7 + 7
    vae = parameters(build_manifold(paper_manifold_config(), 256))
    assert vae == 9_265
    assert trunk + head + vae + classifier == 11_318_904


def test_the_default_decoder_is_32_128_128_d_and_linear_at_its_end() -> None:
    model = build_manifold(ManifoldConfig(), 256)
    assert isinstance(model, VAE)
    linear = [(m.in_features, m.out_features) for m in model.decoder.modules() if isinstance(m, torch.nn.Linear)]
    assert linear == [(32, 128), (128, 128), (128, 256)]
    u = 50 * torch.randn(500, 32, generator=generator(0, "u"))
    assert float(model.decode(u).min()) < -1
    assert float(model.decode(u).max()) > 1


@pytest.mark.parametrize("dim", [64, 256, 1024])
def test_the_convolutional_vae_takes_square_features(dim: int) -> None:
    model = build_manifold(paper_manifold_config(feature_dim=dim), dim)
    z = torch.randn(3, dim, generator=generator(0, "z"))
    assert model.decode(model.encode(z)).shape == (3, dim)
    assert model.latent_dim == (64 if dim == 1024 else 32)


@pytest.mark.slow
def test_the_convolutional_vae_learns() -> None:
    z = clustered(400)
    config = ManifoldConfig(kind="conv-vae", latent_dim=8, epochs=40, batch_size=32)
    report = fit_manifold(config, z[:320], z[320:], seed=0).report
    assert report.explained > 0.4
    assert not report.collapsed


@pytest.mark.parametrize("dim", [100, 128, 144])
def test_other_dimensions_are_sent_to_the_mlp_vae(dim: int) -> None:
    with pytest.raises(ConfigError, match=rf'features have {dim}; use the manifold kind "vae"'):
        build_manifold(ManifoldConfig(kind="conv-vae"), dim)


def test_an_unknown_kind_is_answered_with_what_exists() -> None:
    with pytest.raises(
        ConfigError, match=r"no manifold 'vea'; choose one of conv-vae, gan, nearest, vae, or one.*Did you mean vae\?"
    ):
        build_manifold(ManifoldConfig(kind="vea"), 16)
    assert list_manifolds() == ("conv-vae", "gan", "nearest", "vae")


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("latent_dim", 0),
        ("batch_size", 0),
        ("bank_size", 0),
        ("hidden", ()),
        ("hidden", (16, 0)),
        ("epochs", 0),
        ("learning_rate", 0.0),
        ("learning_rate", math.nan),
        ("kl_weight", -1.0),
        ("kl_weight", math.inf),
        ("momentum", 1.0),
        ("optimizer", "adam"),
        ("schedule", "linear"),
    ],
)
def test_a_setting_that_cannot_work_is_named(setting: str, value: object) -> None:
    with pytest.raises(ConfigError, match=setting):
        ManifoldConfig(**{setting: value})  # type: ignore[arg-type]


def test_bad_features_get_a_sentence() -> None:
    good = clustered(20)
    broken = good.clone()
    broken[7, 3] = math.nan
    with pytest.raises(DataError, match="training feature 7 has NaN"):
        fit_manifold(QUICK, broken, good, seed=0)
    with pytest.raises(DataError, match="at least two held-out features; got 0"):
        fit_manifold(QUICK, good, good[:0], seed=0)
    with pytest.raises(DataError, match="64 dimensions, held-out ones 63"):
        fit_manifold(QUICK, good, good[:, 1:], seed=0)


def test_the_learning_rate_warms_up_and_falls_to_nearly_zero() -> None:
    config = ManifoldConfig(learning_rate=0.1)
    rates = [training_rate(config, step, 1000) for step in range(1000)]
    assert rates[0] == pytest.approx(0.1 / 50)
    assert max(rates) == pytest.approx(0.1)
    assert rates.index(max(rates)) == 49
    assert rates[-1] < 1e-6
    assert training_rate(paper_manifold_config(), 999, 1000) == 0.005
