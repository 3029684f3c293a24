"""The elbow found while running is the one of the stored curve, exactly; fixed by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from homefold.config.search import SearchConfig
from homefold.projection.rules.stopping import Elbow, Fixed, elbow_index


def obvious_elbow(curve: list[float], window: int) -> int:
    """Smooth where the whole window fits, take the centred second difference, return the first highest."""
    half = window // 2
    smooth = {}
    for i in range(half, len(curve) - half):
        total = np.float32(curve[i - half])
        for offset in range(1 - half, half + 1):
            total = np.float32(total + np.float32(curve[i + offset]))
        smooth[i] = np.float32(total / np.float32(window))
    bends = {i: smooth[i + 1] - np.float32(2) * smooth[i] + smooth[i - 1] for i in list(smooth)[1:-1]}
    return max(bends, key=lambda i: (bends[i], -i))


curves = hnp.arrays(np.float32, st.integers(9, 40), elements=st.floats(0, 2, width=32))


def run(rule, curve: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Feed a rule the curves `(m, n)`; the latent after step i is i + 1."""
    last = torch.zeros(curve.shape[1], 1)
    memory = rule.memory(last)
    for i, loss in enumerate(curve):
        last = torch.full((curve.shape[1], 1), i + 1.0)
        memory = rule.watch(i, loss, last, memory)
    return rule.result(last, len(curve), memory)


@pytest.mark.slow
@given(curve=curves, window=st.sampled_from([1, 3, 5, 7]))
def test_the_stored_elbow_is_the_obvious_one(curve, window):
    assert int(elbow_index(torch.from_numpy(curve)[:, None], window)) == obvious_elbow(curve.tolist(), window)


@given(curve=curves, window=st.sampled_from([1, 3, 5, 7]))
def test_the_running_elbow_equals_the_stored_one_exactly(curve, window):
    losses = torch.from_numpy(np.stack([curve, curve[::-1].copy()], axis=1))
    chosen, steps = run(Elbow(SearchConfig(window=window)), losses)
    index = elbow_index(losses, window)
    assert steps.tolist() == (index + 1).tolist()
    # Algorithm 1: U[i] is the latent *after* step i, which here is i + 1.
    assert chosen.flatten().tolist() == (index + 1).tolist()


def test_the_elbow_of_two_straight_lines_is_where_they_meet():
    falling, flat = torch.linspace(1, 0.2, 60), torch.full((40,), 0.2)
    assert int(elbow_index(torch.cat([falling, flat])[:, None], window=5)) == pytest.approx(60, abs=3)


@pytest.mark.parametrize("rule", [Elbow(SearchConfig()), Fixed(SearchConfig())])
def test_memory_keeps_its_shape_and_is_never_written_to(rule):
    """So it can lie in tensors that a CUDA graph reads and writes, and the step's number in one of them."""
    first = rule.memory(torch.zeros(3, 2))
    before = [x.clone() for x in first]
    for step in (0, torch.tensor([9])):
        after = rule.watch(step, torch.rand(3), torch.rand(3, 2), first)
        assert [(x.shape, x.dtype) for x in after] == [(x.shape, x.dtype) for x in before]
        torch.testing.assert_close(list(first), before, rtol=0, atol=0, equal_nan=True)


def test_fixed_takes_the_last():
    chosen, steps = run(Fixed(SearchConfig()), torch.rand(7, 2))
    assert chosen.flatten().tolist() == [7.0, 7.0]
    assert steps.tolist() == [7, 7]
