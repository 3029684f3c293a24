"""Engines against the slow, obvious one: by hand, in tensors of fixed size, and as a kernel."""

from __future__ import annotations

import gc
import weakref
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from homefold.config.search import SearchConfig
from homefold.errors import ConfigError
from homefold.manifold import ManifoldConfig, fit_manifold
from homefold.manifold.base import mlp
from homefold.projection import chosen_engine, project
from homefold.projection.engines import Search, choose_engine
from homefold.projection.engines.batched import batched
from homefold.projection.engines.compiled import TensorSearch
from homefold.projection.engines.reference import reference
from homefold.projection.rules.objective import (
    gradient_function,
    loss_and_gradient,
    mlp_decoder,
    mlp_loss_and_gradient,
)

KERNEL_TESTS = Path(__file__).with_name("kernel_in_the_interpreter.py")


def decoders(smallest: int) -> st.SearchStrategy[torch.nn.Sequential]:
    return st.builds(
        lambda seed, k, hidden, d: _decoder(seed, k, *hidden, d),
        st.integers(0, 10_000),
        st.integers(smallest, 6),
        st.lists(st.integers(smallest, 9), min_size=1, max_size=3),
        st.integers(smallest, 12),
    )


rules = st.builds(
    partial(SearchConfig, steps=12, rate=0.05),
    step=st.sampled_from(["gradient", "normalised", "adam"]),
    stop=st.sampled_from(["elbow", "fixed"]),
)


def _decoder(seed: int, *widths: int) -> torch.nn.Sequential:
    torch.manual_seed(seed)
    return mlp(*widths).double()


def _problem(decode: torch.nn.Sequential, n: int, s: int) -> tuple[torch.Tensor, torch.Tensor]:
    k, d = decode[0].in_features, decode[-1].out_features
    return torch.randn(n, d, dtype=torch.float64), torch.randn(n, s, k, dtype=torch.float64)


def assert_same_search(found: Search, expected: Search, **tolerance: float) -> None:
    for name in ("latents", "before", "after"):
        torch.testing.assert_close(getattr(found, name), getattr(expected, name), **tolerance, check_dtype=False)
    assert found.steps.tolist() == expected.steps.tolist()


@pytest.mark.slow
@given(decode=decoders(1), repeats=st.integers(1, 3))
@settings(max_examples=40)
def test_the_gradient_by_hand_is_that_of_autograd(decode, repeats):
    targets, starts = _problem(decode, 3, repeats)
    u = starts.reshape(3 * repeats, -1)
    expected = loss_and_gradient(decode, u, targets.repeat_interleave(repeats, dim=0))
    by_hand = gradient_function(decode, targets, repeats)
    torch.testing.assert_close(by_hand(u), expected)
    assert by_hand(u)[1].data_ptr() == by_hand(u)[1].data_ptr(), "autograd would not write over the gradient"
    p, c = (term.repeat_interleave(repeats, dim=0) for term in mlp_decoder(decode).target_terms(targets))
    torch.testing.assert_close(mlp_loss_and_gradient(mlp_decoder(decode), u, p, c), expected)


def test_a_target_of_zeros_is_similar_to_nothing_and_pulls_nowhere():
    decode = _decoder(0, 3, 5, 4)
    loss, gradient = gradient_function(decode, torch.zeros(2, 4, dtype=torch.float64))(torch.ones(2, 3).double())
    assert loss.tolist() == [1, 1]
    assert gradient.abs().max() == 0


@given(decode=decoders(4), config=rules, n=st.integers(1, 3), s=st.integers(1, 2))
@settings(max_examples=15)
@pytest.mark.slow
def test_every_way_to_carry_the_rows_ends_where_the_reference_does(decode, config, n, s):
    targets, starts = _problem(decode, n, s)
    expected = reference(decode, targets, starts, config)
    with torch.no_grad():
        assert_same_search(batched(decode, targets, starts, config), expected)
        k = starts.shape[2]
        search = TensorSearch(decode, config, targets, starts.reshape(n * s, k))
        search.reset(targets, starts.reshape(n * s, k))
        search.run(graphs=False)
        chosen, steps = search.result()
        torch.testing.assert_close(chosen.view(n, s, k), expected.latents)
        torch.testing.assert_close(search.loss(chosen).view(n, s), expected.after)
        assert steps.view(n, s).tolist() == expected.steps.tolist()


def test_float32_stays_close_to_a_double_precision_reference_over_the_first_steps():
    decode = _decoder(0, 32, 128, 128, 256)
    targets, starts = _problem(decode, 4, 2)
    config = SearchConfig(steps=20)
    expected = reference(decode, targets, starts, config)
    found = batched(decode.float(), targets.float(), starts.float(), config)
    assert_same_search(found, expected, atol=2e-4, rtol=2e-4)


@pytest.mark.parametrize(
    "layers",
    [
        (torch.nn.Linear(3, 4),),
        (torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 5)),
        (torch.nn.Linear(3, 4), torch.nn.LeakyReLU(0.0), torch.nn.Linear(4, 5)),
        (torch.nn.Linear(3, 4, bias=False), torch.nn.LeakyReLU(0.2), torch.nn.Linear(4, 5)),
        (torch.nn.Linear(3, 4), torch.nn.LeakyReLU(0.2)),
    ],
)
def test_other_decoders_are_left_to_autograd(layers):
    assert mlp_decoder(torch.nn.Sequential(*layers)) is None


def test_what_is_remembered_of_a_decoder_follows_its_weights():
    decode = mlp(3, 5, 4)
    before = mlp_decoder(decode)
    assert mlp_decoder(decode) is before
    with torch.no_grad():
        decode[-1].weight.mul_(2)
    torch.testing.assert_close(mlp_decoder(decode).gram, 4 * before.gram)


@pytest.mark.slow
def test_the_kernel_ends_where_the_reference_does(interpreted):
    assert "13 passed" in interpreted(KERNEL_TESTS)


@pytest.mark.parametrize("engine", ["compiled", "fused"])
def test_engines_of_a_gpu_say_so_on_a_cpu(manifold, engine):
    words = rf"the {engine} engine cannot run: it needs a CUDA device, and this is cpu.*search.engine=auto"
    with pytest.raises(ConfigError, match=words):
        project(manifold, torch.ones(1, 24), SearchConfig(engine=engine))


def test_auto_takes_the_batched_engine_on_a_cpu():
    assert choose_engine(mlp(3, 16, 5), SearchConfig(), torch.device("cpu")) == "batched"
    assert choose_engine(mlp(3, 16, 5), SearchConfig(engine="reference"), torch.device("cpu")) == "reference"


@pytest.fixture(scope="module")
def manifold():
    torch.manual_seed(0)
    z = torch.randn(5, 24).repeat(60, 1) + 0.25 * torch.randn(300, 24)
    z = torch.nn.functional.normalize(z, dim=1) * 24**0.5
    config = ManifoldConfig(latent_dim=6, hidden=(32, 32), epochs=60)
    return fit_manifold(config, z[:240], z[240:], seed=0, device="cpu")


def test_the_projection_says_which_engine_ran(manifold):
    assert project(manifold, torch.ones(2, 24), SearchConfig(steps=1)).engine == "batched"
    assert project(manifold, torch.ones(2, 24), SearchConfig(steps=1, engine="reference")).engine == "reference"
    nearest = fit_manifold(ManifoldConfig(kind="nearest"), torch.randn(9, 24), torch.randn(4, 24), seed=0, device="cpu")
    assert chosen_engine(SearchConfig(), nearest) == project(nearest, torch.ones(1, 24), SearchConfig()).engine


@pytest.mark.slow
def test_a_decoder_that_a_search_was_made_for_is_not_kept_alive():
    decode = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Tanh())
    search = TensorSearch(decode, SearchConfig(), torch.zeros(4, 3), torch.zeros(4, 2))
    watched = weakref.ref(decode)
    del decode
    gc.collect()
    assert watched() is None
    assert search.decoder is None


def test_no_step_at_all_still_measures_where_it_is():
    random = torch.Generator().manual_seed(0)
    z = torch.randn(3, 8, generator=random).repeat(20, 1) + 0.2 * torch.randn(60, 8, generator=random)
    manifold = fit_manifold(ManifoldConfig(latent_dim=3, hidden=(16,), epochs=60), z[:50], z[50:], seed=0, device="cpu")
    config = SearchConfig(steps=0, random_starts=3)
    found, expected = (project(manifold, z[:7], replace(config, engine=engine)) for engine in ("batched", "reference"))
    assert found.start.tolist() == expected.start.tolist()
    torch.testing.assert_close(found.similarity_after, expected.similarity_after)


@pytest.mark.slow
@pytest.mark.parametrize("step", ["gradient", "normalised", "adam"])
@pytest.mark.parametrize("stop", ["fixed", "elbow"])
def test_the_arithmetic_that_a_gpu_compiles_is_that_of_the_rules(step, stop):
    decode = _decoder(3, 4, 8, 8, 6)
    targets, starts = _problem(decode, 3, 2)
    config = SearchConfig(step=step, stop=stop, steps=9, rate=0.05)
    search = TensorSearch(decode, config, targets, starts.reshape(6, 4))
    search.advance = torch.compile(search.advance, backend="aot_eager", dynamic=False, fullgraph=True)
    with torch.no_grad():
        search.reset(targets, starts.reshape(6, 4))
        search.run(graphs=False)
        chosen, steps = search.result()
        search.step()
        search.step()
    expected = reference(decode, targets, starts, config)
    torch.testing.assert_close(chosen.view(3, 2, 4), expected.latents)
    assert steps.view(3, 2).tolist() == expected.steps.tolist()
