"""A stopping rule of one's own, registered in one place, is used wherever an engine takes every rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch

from homefold.config.search import SearchConfig
from homefold.errors import ConfigError
from homefold.manifold import Manifold, ManifoldConfig, fit_manifold
from homefold.manifold.base import mlp
from homefold.projection import project
from homefold.projection.engines import ENGINES
from homefold.projection.engines.compiled import TensorSearch
from homefold.projection.rules.stopping import STOPPING_RULES, StoppingRule, stopping_rule


class Third(StoppingRule):
    """Stop after the third step."""

    def memory(self, u: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (u.clone(),)

    def watch(self, step, loss, after, memory):
        third = torch.as_tensor(step == 2)
        return (torch.where(third, after, memory[0]),)

    def result(self, last, steps, memory):
        return memory[0], torch.full((len(last),), 3)


@dataclass(frozen=True)
class WithThird(SearchConfig):
    """Settings that allow the rule's name."""

    stop: str = "third"


@pytest.fixture
def config() -> Iterator[SearchConfig]:
    STOPPING_RULES.named("third")(Third)
    yield WithThird(steps=8, random_starts=1)
    STOPPING_RULES.remove("third")


@pytest.fixture(scope="module")
def manifold() -> Manifold:
    random = torch.Generator().manual_seed(0)
    z = torch.randn(3, 8, generator=random).repeat(20, 1) + 0.2 * torch.randn(60, 8, generator=random)
    return fit_manifold(ManifoldConfig(latent_dim=3, hidden=(16,), epochs=60), z[:50], z[50:], seed=0, device="cpu")


@pytest.mark.parametrize("engine", ["reference", "batched"])
def test_engines_that_take_every_rule_use_it(manifold, config, engine):
    z = torch.randn(5, 8, generator=torch.Generator().manual_seed(1))
    found = project(manifold, z, replace(config, engine=engine))
    expected = project(manifold, z, SearchConfig(steps=3, random_starts=1, engine=engine))
    assert found.engine == engine
    assert found.iterations.tolist() == [3] * 5
    assert torch.equal(found.latents, expected.latents)


def test_tensors_of_fixed_size_hold_what_it_remembers(config):
    torch.manual_seed(0)
    decode, targets, starts = mlp(3, 16, 8), torch.randn(5, 8), torch.randn(5, 3)
    ends = []
    for settings in (config, SearchConfig(steps=3)):
        search = TensorSearch(decode, settings, targets, starts)
        with torch.no_grad():
            search.reset(targets, starts)
            search.run(graphs=False)
            ends.append(search.result())
    assert torch.equal(ends[0][0], ends[1][0])
    assert ends[0][1].tolist() == ends[1][1].tolist() == [3] * 5


def test_the_kernel_declines_it_and_the_next_engine_takes_it(config):
    decode, cuda = mlp(32, 128, 128, 256), torch.device("cuda")
    words = "it knows the stopping rules elbow, fixed, and this is third"
    assert ENGINES["fused"].why_not(decode, config, cuda) == words
    assert [name for name, engine in ENGINES.items() if not engine.why_not(decode, config, cuda)] == [
        "compiled",
        "batched",
        "reference",
    ]


def test_a_rule_that_there_is_none_of_gets_a_sentence():
    there = ", ".join(sorted(STOPPING_RULES))
    assert "elbow, fixed" in there
    with pytest.raises(ConfigError, match=rf"there is no stopping rule 'third'; choose one of {there}\."):
        stopping_rule(WithThird())
    with pytest.raises(ConfigError, match=r"there already is a stopping rule 'fixed'"):
        STOPPING_RULES.named("fixed")(Third)
