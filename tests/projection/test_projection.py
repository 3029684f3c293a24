"""The projection: engines agree, it reaches the manifold, an answer depends on nothing but its sample and the seed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from homefold.config.search import SearchConfig, search_preset
from homefold.errors import ConfigError, ManifoldCollapsedError
from homefold.manifold import ManifoldConfig, build_manifold, fit_manifold
from homefold.projection import chosen_engine, project
from homefold.projection.engines import ENGINES
from homefold.projection.engines.batched import batched
from homefold.projection.engines.reference import loss_curve, reference
from homefold.projection.rules.objective import cosine_distance
from homefold.projection.rules.starts import start_names, starting_latents
from homefold.projection.rules.stopping import Elbow, elbow_index


@pytest.fixture(scope="module")
def features() -> torch.Tensor:
    torch.manual_seed(0)
    centres = torch.randn(5, 24)
    z = centres.repeat(60, 1) + 0.25 * torch.randn(300, 24)
    return torch.nn.functional.normalize(z, dim=1) * 24**0.5


@pytest.fixture(scope="module")
def manifold(features):
    config = ManifoldConfig(latent_dim=6, hidden=(32, 32), epochs=60)
    return fit_manifold(config, features[:240], features[240:], seed=0, device="cpu")


EVERY = [
    SearchConfig(encoder_start=e, random_starts=r, nearest_starts=n, step=step, rate=rate, steps=25, stop=stop)
    for (e, r, n), step, rate, stop in [
        ((True, 0, 0), "adam", 0.05, "fixed"),
        ((False, 3, 0), "gradient", 0.1, "elbow"),
        ((True, 1, 2), "normalised", 0.02, "elbow"),
        ((False, 0, 2), "adam", 0.1, "elbow"),
        ((True, 2, 1), "normalised", 0.05, "fixed"),
    ]
]


@pytest.mark.slow
@pytest.mark.parametrize("config", EVERY)
def test_engines_agree(manifold, features, config):
    one = project(manifold, features[:7], replace(config, engine="reference"), seed=3)
    all_at_once = project(manifold, features[:7], replace(config, engine="batched"), seed=3)
    torch.testing.assert_close(one.features, all_at_once.features, atol=1e-3, rtol=1e-3)
    torch.testing.assert_close(one.similarity_after, all_at_once.similarity_after, atol=1e-4, rtol=0)


@pytest.mark.slow
@settings(max_examples=15)
@given(
    d=st.integers(2, 12),
    k=st.integers(1, 5),
    n=st.integers(1, 4),
    s=st.integers(1, 3),
    step=st.sampled_from(["gradient", "normalised", "adam"]),
    stop=st.sampled_from(["elbow", "fixed"]),
    seed=st.integers(0, 1000),
)
def test_engines_agree_in_double_precision_on_random_decoders(d, k, n, s, step, stop, seed):
    torch.manual_seed(seed)
    decode = torch.nn.Sequential(torch.nn.Linear(k, 7), torch.nn.Tanh(), torch.nn.Linear(7, d)).double()
    targets, starts = torch.randn(n, d).double(), torch.randn(n, s, k).double()
    config = SearchConfig(step=step, stop=stop, steps=12, rate=0.05)
    expected, found = reference(decode, targets, starts, config), batched(decode, targets, starts, config)
    torch.testing.assert_close(found.latents, expected.latents)
    torch.testing.assert_close(found.before, expected.before)
    torch.testing.assert_close(found.after, expected.after)
    assert found.steps.tolist() == expected.steps.tolist()


def test_the_gradient_of_the_search_is_that_of_finite_differences(manifold, features):
    decode = manifold.double().decode
    target = features[:1].double()
    u = torch.randn(1, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: cosine_distance(decode(x), target), (u,))
    manifold.float()


def test_algorithm_1_step_by_step(manifold, features):
    """U[i] is the latent after the step, L[i] the loss before it, u* = U[argmax of the second difference]."""
    config = replace(search_preset("paper"), steps=40, rate=0.5)
    assert (config.step, config.stop, config.random_starts, config.encoder_start) == ("gradient", "elbow", 1, False)
    target = features[:1]
    u = starting_latents(config, manifold, target, seed=0)[0].clone().requires_grad_()
    latents, losses = [], []
    for _ in range(40):
        loss = cosine_distance(manifold.decode(u), target)
        (gradient,) = torch.autograd.grad(loss.sum(), u)
        u = (u - 0.5 * gradient).detach().requires_grad_()
        latents.append(u.detach())
        losses.append(loss.detach())
    n_star = int(elbow_index(torch.stack(losses), 5))
    found = project(manifold, target, config, seed=0)
    torch.testing.assert_close(found.latents, latents[n_star])
    assert int(found.iterations) == n_star + 1
    stored, _ = loss_curve(manifold.decode, target, starting_latents(config, manifold, target, 0)[0], config)
    torch.testing.assert_close(stored, torch.stack(losses))


def test_projecting_brings_a_disturbed_feature_closer_to_what_it_was(manifold, features):
    torch.manual_seed(1)
    disturbed = features[:100] + 0.8 * torch.randn(100, 24)
    home = project(manifold, disturbed, SearchConfig()).features
    assert cosine_distance(home, features[:100]).mean() < 0.8 * cosine_distance(disturbed, features[:100]).mean()


def test_more_starts_never_end_farther_away(manifold, features):
    one = project(manifold, features[:40], SearchConfig(encoder_start=False, random_starts=1, steps=60))
    eight = project(manifold, features[:40], SearchConfig(encoder_start=False, random_starts=8, steps=60))
    assert (eight.similarity_after >= one.similarity_after - 1e-6).all()
    assert eight.similarity_after.mean() > one.similarity_after.mean()
    assert len(eight.start.unique()) > 1


def test_similarities_are_those_of_start_and_end(manifold, features):
    config = SearchConfig(steps=10)
    found = project(manifold, features[:5], config)
    start = manifold.decode(manifold.encode(features[:5]))
    torch.testing.assert_close(found.similarity_before, 1 - cosine_distance(start, features[:5]))
    torch.testing.assert_close(found.similarity_after, 1 - cosine_distance(found.features, features[:5]))
    assert (found.similarity_after > found.similarity_before).all()


@pytest.mark.parametrize("config", EVERY)
def test_an_answer_depends_on_its_sample_and_the_seed_alone(manifold, features, config):
    z = features[:64]
    together = project(manifold, z, config, seed=5)
    order = torch.randperm(64, generator=torch.Generator().manual_seed(0))
    permuted = project(manifold, z[order], config, seed=5)
    for name in ("features", "latents", "similarity_after", "iterations", "start"):
        assert torch.equal(getattr(permuted, name), getattr(together, name)[order])
        for i in (0, 17, 63):
            alone = project(manifold, z[i : i + 1], config, seed=5)
            assert torch.equal(getattr(alone, name)[0], getattr(together, name)[i])


def test_start_names_say_which_start_won(manifold):
    config = SearchConfig(encoder_start=True, nearest_starts=1, random_starts=2)
    assert start_names(config, manifold) == ("encoder", "nearest 1", "random 1", "random 2")


def test_more_nearest_starts_than_known_points(manifold, features):
    config = SearchConfig(nearest_starts=10_000, steps=2)
    names = start_names(config, manifold)
    assert len(names) == starting_latents(config, manifold, features[:1], seed=0).shape[1] == 1 + 240


def test_a_start_that_ran_off_to_nan_never_wins(manifold, features, monkeypatch):
    def broken(decode, targets, starts, config):
        found = batched(decode, targets, starts, config)
        found.latents[:, 0] = torch.nan
        found.after[:, 0] = torch.nan
        return found

    monkeypatch.setitem(ENGINES, "batched", replace(ENGINES["batched"], run=broken))
    found = project(manifold, features[:4], SearchConfig(encoder_start=False, random_starts=2, steps=3))
    assert found.start.tolist() == [1] * 4
    assert torch.isfinite(found.features).all()


def test_without_an_encoder_the_nearest_known_point_stands_in(features):
    config = ManifoldConfig(kind="gan", latent_dim=4, hidden=(16,), epochs=2)
    gan = fit_manifold(config, features[:240], features[240:], seed=0, device="cpu")
    assert start_names(SearchConfig(), gan) == ("nearest 1",)
    latents = starting_latents(SearchConfig(), gan, features[:3], seed=0)
    similarity = torch.nn.functional.normalize(features[:3], dim=1) @ torch.nn.functional.normalize(gan.bank_features).T
    assert torch.equal(latents[:, 0], gan.bank_latents[similarity.argmax(1)])


def test_one_nearest_neighbour_answers_with_a_source_feature(features):
    nearest = fit_manifold(ManifoldConfig(kind="nearest"), features[:240], features[240:], seed=0, device="cpu")
    found = project(nearest, features[240:250], SearchConfig())
    similarity = (
        torch.nn.functional.normalize(features[240:250], dim=1) @ torch.nn.functional.normalize(features[:240], dim=1).T
    )
    assert torch.equal(found.features, features[similarity.argmax(1)])
    assert found.iterations.tolist() == [0] * 10
    assert found.start_names == ("nearest source feature",)


@pytest.mark.slow
def test_memory_does_not_grow_with_the_number_of_steps(manifold, features, monkeypatch):
    """Count the tensors a search keeps alive: the same for 10 and for 400 steps."""
    import gc

    alive = []
    original = Elbow.watch

    def watch(self, step, *args):
        if step in (9, 399):
            alive.append(sum(issubclass(type(item), torch.Tensor) for item in gc.get_objects()))
        return original(self, step, *args)

    monkeypatch.setattr(Elbow, "watch", watch)
    project(manifold, features[:4], replace(search_preset("paper"), steps=400))
    assert abs(alive[1] - alive[0]) <= 2


def test_a_collapsed_manifold_is_refused(features):
    manifold = fit_manifold(
        ManifoldConfig(latent_dim=4, kl_weight=100.0, epochs=20), features[:240], features[240:], seed=0, device="cpu"
    )
    with pytest.raises(ManifoldCollapsedError, match="kl_weight"):
        project(manifold, features, SearchConfig())


def test_no_features_give_no_answers(manifold, features):
    found = project(manifold, features[:0], SearchConfig())
    assert found.features.shape == (0, 24)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"encoder_start": False}, "needs a start"),
        ({"window": 4}, "search.window must be odd, so that it has a centre; got 4"),
        ({"stop": "elbow", "steps": 6}, "search.window \\+ 2 = 7 steps; got 6"),
        ({"rate": 0.0}, "search.rate must be above 0; got 0.0"),
        ({"momentum": 1.0}, "search.momentum must be at least 0 and below 1; got 1.0"),
        ({"steps": -1}, "search.steps must be at least 0; got -1"),
        ({"tile": -1}, "tile must be 0 to 65536; got -1"),
        ({"tile": 2**31 - 1}, "tile must be 0 to 65536; got 2147483647"),
        ({"random_starts": 2**31 - 1}, "random_starts must be 0 to 4096; got 2147483647"),
        ({"stop": "plateau"}, "stop must be one of elbow, fixed"),
    ],
)
def test_settings_that_cannot_work_get_a_sentence(settings, words):
    with pytest.raises(ConfigError, match=words):
        SearchConfig(**settings)


def test_presets(manifold):
    assert search_preset("default") == SearchConfig()
    assert chosen_engine(SearchConfig(), manifold) == "batched"
    with pytest.raises(ConfigError, match=r"default, paper, authors, restarts"):
        search_preset("best")


def test_build_manifold_is_frozen():
    manifold = build_manifold(ManifoldConfig(latent_dim=4), 16)
    assert not any(parameter.requires_grad for parameter in manifold.parameters())
