"""SWAD's window: which epochs lie in the valley of the held-out loss, and the mean of their steps' weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold.features.averaging import ValleyAverage, loss_valley
from homefold.store.files import read_state, write_state

LOSSES = st.lists(st.sampled_from([0.5, 0.8, 1.0, 1.2, 1.6, 2.0, 3.0]), min_size=1, max_size=24)
RULE = {"patience": st.integers(1, 3), "tolerance": st.integers(3, 6), "ratio": st.sampled_from([1.0, 1.3, 2.0])}


def as_published(losses, patience, tolerance, ratio):
    """The paper's algorithm, step by step: (t_s, t_e, l), where t_e is None as long as the end is not found."""
    start = end = bound = None
    for i in range(len(losses)):
        if bound is None:
            if i >= patience - 1 and losses[i - patience + 1] == min(losses[i - patience + 1 : i + 1]):
                start, bound = i - patience + 1, ratio / patience * sum(losses[i - patience + 1 : i + 1])
        elif bound < min(losses[max(0, i - tolerance + 1) : i + 1]):
            end = i - tolerance
            break
    return start, end, bound


@given(LOSSES, *RULE.values())
def test_the_valley_is_the_published_one(losses, patience, tolerance, ratio):
    start, end, bound = as_published(losses, patience, tolerance, ratio)
    found = loss_valley(losses, patience, tolerance, ratio)
    if start is None:
        assert found is None
    elif end is not None:
        assert found == (start, end)
    else:
        # Where training ends first, what is above the bound at its end is left out.
        below = [place for place in range(start, len(losses)) if losses[place] <= ratio / patience * sum(
            losses[start : start + patience]
        ) * (1 + 1e-12)]  # fmt: skip
        assert found == (start, below[-1])
        assert bound is not None


class Counter(nn.Module):
    """Weights that tell which step they are of."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(2))
        self.register_buffer("seen", torch.tensor(0))

    def step(self, number: int) -> None:
        with torch.no_grad():
            self.weight.copy_(torch.tensor([float(number), float(number**2)]))
        self.seen.fill_(number)


@given(LOSSES, *RULE.values(), st.integers(1, 3))
def test_the_mean_is_that_of_all_steps_of_the_valley(losses, patience, tolerance, ratio, steps):
    module = Counter()
    average = ValleyAverage(module, patience=patience, tolerance=tolerance, ratio=ratio)
    for epoch, loss in enumerate(losses):
        for number in range(epoch * steps, (epoch + 1) * steps):
            module.step(number)
            average.after_step(number + 1, steps * len(losses))
        average.after_epoch(epoch + 1, len(losses), lambda loss=loss: loss)
        valley = loss_valley(losses[: epoch + 1], patience, tolerance, ratio)
        if valley is None:
            assert average.count == 0
            continue
        inside = torch.arange(valley[0] * steps, (valley[1] + 1) * steps, dtype=torch.float64)
        assert average.count == len(inside)
        expected = [inside.mean().item(), inside.square().mean().item()]
        assert average.mean["weight"].tolist() == pytest.approx(expected, rel=1e-4)
        assert average.mean["seen"].item() == int(inside[-1])
        assert len(average.state_dict()["waiting"]) < max(patience, tolerance)


def test_what_a_checkpoint_keeps_goes_on_to_the_same_mean(tmp_path):
    losses = [3.0, 1.0, 1.1, 1.2, 2.0, 1.0, 2.0, 2.0, 2.0, 2.0]
    path = tmp_path / "state.safetensors"

    def go_on(average, module, epochs):
        for epoch in epochs:
            module.step(epoch)
            average.after_step(epoch, 10)
            average.after_epoch(epoch, 10, lambda loss=losses[epoch]: loss)

    whole = Counter()
    expected = ValleyAverage(whole, tolerance=3)
    go_on(expected, whole, range(10))
    for stop in range(1, 10):
        module = Counter()
        average = ValleyAverage(module, tolerance=3)
        go_on(average, module, range(stop))
        write_state(path, average.state_dict())
        again = ValleyAverage(module, tolerance=3)
        again.load_state_dict(read_state(path))
        go_on(again, module, range(stop, 10))
        assert again.count == expected.count == 5
        assert torch.equal(again.mean["weight"], expected.mean["weight"])


def test_once_the_valley_is_over_the_loss_is_not_asked_for_again():
    module = Counter()
    average = ValleyAverage(module, patience=1, tolerance=1)
    asked = []
    for epoch, loss in enumerate([1.0, 2.0, 0.1, 0.1]):
        module.step(epoch)
        average.after_step(epoch, 4)
        average.after_epoch(epoch, 4, lambda loss=loss: asked.append(loss) or loss)
    assert asked == [1.0, 2.0]
    assert (average.count, average.within_epoch) == (1, {})
