"""The engines of a CUDA device against the slow, obvious one; skipped where there is none."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from homefold import Homefold
from homefold.config.search import SearchConfig
from homefold.manifold.base import mlp
from homefold.projection.engines import ENGINES
from homefold.projection.engines.reference import reference

pytestmark = pytest.mark.gpu

RULES = [{"step": step, "stop": stop} for step in ("gradient", "normalised", "adam") for stop in ("fixed", "elbow")]


def _search(engine: str, precision: str, rules: dict[str, Any], n: int = 40, s: int = 3, steps: int = 12):
    torch.manual_seed(0)
    decode = mlp(32, 128, 128, 256).cuda().requires_grad_(False)
    targets, starts = torch.randn(n, 256, device="cuda"), torch.randn(n, s, 32, device="cuda")
    # Long plain steps, so that the curves bend where no rounding moves the bend.
    rate = 50.0 if rules["step"] == "gradient" else 0.05
    config = SearchConfig(steps=steps, rate=rate, precision=precision, **rules)
    with torch.no_grad():
        found = ENGINES[engine].run(decode, targets, starts, config)
    return found, (decode, targets, starts, config)


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(map(str, rules.values())))
@pytest.mark.parametrize(
    ("engine", "precision", "tolerance"),
    [("batched", "highest", 1e-3), ("compiled", "highest", 1e-3), ("fused", "high", 5e-3)],
)
def test_engines_follow_a_double_precision_reference_over_the_first_steps(engine, precision, tolerance, rules):
    found, (decode, targets, starts, config) = _search(engine, precision, rules, n=4)
    expected = reference(decode.double(), targets.double(), starts.double(), config)
    same = found.steps == expected.steps
    assert same.float().mean() > 0.9
    torch.testing.assert_close(found.before.double(), expected.before, atol=1e-4, rtol=0)
    torch.testing.assert_close(found.after.double(), expected.after, atol=tolerance, rtol=0)
    torch.testing.assert_close(found.latents[same].double(), expected.latents[same], atol=tolerance, rtol=tolerance)


def test_bfloat16_ends_nearly_where_float64_does():
    found, (decode, targets, starts, config) = _search(
        "fused", "medium", {"step": "adam", "stop": "fixed"}, n=8, steps=100
    )
    expected = reference(decode.double(), targets.double(), starts.double(), config)
    assert (found.after.double() - expected.after).abs().mean() < 5e-3
    assert (found.before - found.after).mean() > 0.1


@pytest.mark.parametrize("rules", RULES, ids=lambda rules: "-".join(map(str, rules.values())))
@pytest.mark.parametrize("precision", ["high", "medium"])
def test_a_row_of_the_kernel_has_the_same_bytes_in_any_batch(precision, rules):
    found, (decode, targets, starts, config) = _search("fused", precision, rules)
    order = torch.randperm(40, generator=torch.Generator().manual_seed(0)).cuda()
    permuted = ENGINES["fused"].run(decode, targets[order], starts[order], config)
    for name in ("latents", "steps", "before", "after"):
        assert torch.equal(getattr(permuted, name), getattr(found, name)[order])


def test_kernel_and_graphs_give_the_same_bytes_every_time():
    for engine in ("compiled", "fused"):
        runs = [_search(engine, "high", {"step": "adam", "stop": "fixed"}, steps=120)[0] for _ in range(3)]
        assert all(torch.equal(run.latents, runs[0].latents) for run in runs)


def test_auto_takes_the_kernel_and_says_so(few_digits, quick_config):
    model = Homefold(quick_config, device="cuda").fit(few_digits, holdout="street")
    assert model.predict(few_digits.images[:3]).engine == "fused"
