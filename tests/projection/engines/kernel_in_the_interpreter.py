"""The kernel of the fused engine, run by Triton's interpreter, which multiplies in float32 only.

`test_engines.py` runs this file in a process where TRITON_INTERPRET=1.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from homefold.config.search import SearchConfig
from homefold.manifold.base import mlp
from homefold.projection.engines.fused import fused
from homefold.projection.engines.reference import reference


@pytest.mark.parametrize("hidden", [(20,), (40, 20)])
@pytest.mark.parametrize("step", ["gradient", "normalised", "adam"])
@pytest.mark.parametrize("stop", ["fixed", "elbow"])
def test_it_ends_where_the_reference_does(hidden, step, stop):
    torch.manual_seed(1)
    decode = mlp(6, *hidden, 24)
    targets, starts = torch.randn(5, 24), torch.randn(5, 3, 6)
    # A curve that hardly bends has its elbow anywhere: plain gradients need long steps here.
    rate = 2.0 if step == "gradient" else 0.05
    config = SearchConfig(step=step, stop=stop, steps=11, rate=rate)
    expected = reference(decode.double(), targets.double(), starts.double(), config)
    found = fused(decode.float(), targets, starts, replace(config, precision="highest"))
    for name in ("latents", "before", "after"):
        same = getattr(found, name), getattr(expected, name)
        torch.testing.assert_close(*same, atol=1e-4, rtol=1e-4, check_dtype=False)
    assert found.steps.tolist() == expected.steps.tolist()


def test_more_rows_than_a_tile_and_no_step_at_all():
    torch.manual_seed(2)
    decode = mlp(3, 16, 5)
    targets, starts = torch.randn(70, 5), torch.randn(70, 1, 3)
    for steps in (0, 2):
        config = SearchConfig(steps=steps, precision="highest")
        expected = reference(decode, targets, starts, config)
        found = fused(decode, targets, starts, config)
        torch.testing.assert_close(found.latents, expected.latents, atol=1e-4, rtol=1e-4)
        torch.testing.assert_close(found.after, expected.after, atol=1e-4, rtol=1e-4)
        assert found.steps.tolist() == expected.steps.tolist()
