"""Learning rates, the order of images, averaged weights."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold.features.averaging import WeightAverage
from homefold.features.schedule import epoch_batches, learning_rate_factor


def test_one_cycle_is_torchs():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0, total_steps=50, final_div_factor=400)
    for step in range(50):
        # torch counts the warm-up to step 0.3 · total − 1, we to 0.3 · (total − 1): they differ by less than a step
        assert learning_rate_factor("one-cycle", step, 50) == pytest.approx(theirs.get_last_lr()[0], abs=0.06)
        optimizer.step()
        theirs.step()


def test_step_decays_at_its_milestones_as_the_paper_does_on_cifar():
    at = {epoch: learning_rate_factor("step", epoch, 200, milestones=(0.25, 0.5, 0.75)) for epoch in (0, 49, 50, 150)}
    assert {epoch: round(0.1 * factor, 6) for epoch, factor in at.items()} == {0: 0.1, 49: 0.1, 50: 0.02, 150: 0.0008}


def test_cosine_is_torchs():
    optimizer = torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=1.0)
    theirs = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=50)
    for step in range(50):
        assert learning_rate_factor("cosine", step, 50) == pytest.approx(theirs.get_last_lr()[0], abs=1e-6)
        optimizer.step()
        theirs.step()


def test_constant():
    assert learning_rate_factor("constant", 7, 10) == 1.0


@given(n=st.integers(2, 60), batch=st.integers(2, 20), seed=st.integers(0, 1000))
def test_shuffled_visits_no_image_twice(n, batch, seed):
    labels, domains = torch.arange(n) % 3, torch.arange(n) % 2
    order = epoch_batches(labels, domains, batch, "shuffled", torch.Generator().manual_seed(seed))
    size = min(batch, n)
    assert order.shape == (n // size, size)
    assert len(order.unique()) == order.numel()


def test_balanced_fills_each_batch_evenly_over_domains_and_classes():
    labels = torch.tensor([0] * 90 + [1] * 6 + [0] * 20 + [1] * 12)
    domains = torch.tensor([0] * 96 + [1] * 32)
    order = epoch_batches(labels, domains, 16, "balanced", torch.Generator().manual_seed(0))
    cells = domains[order] * 2 + labels[order]
    for batch in cells:
        assert torch.bincount(batch, minlength=4).tolist() == [4, 4, 4, 4]
    drawn = torch.bincount(order.flatten(), minlength=128)
    small = drawn[90:96]
    assert int(small.max() - small.min()) <= 1


def test_domains_fills_each_batch_evenly_over_these_and_leaves_classes_as_they_are():
    labels = torch.tensor([0] * 90 + [1] * 6 + [0] * 20 + [1] * 12)
    domains = torch.tensor([0] * 96 + [1] * 32)
    order = epoch_batches(labels, domains, 16, "domains", torch.Generator().manual_seed(0))
    for batch in domains[order]:
        assert torch.bincount(batch, minlength=2).tolist() == [8, 8]
    drawn = torch.bincount(order.flatten(), minlength=128)
    assert int(drawn[96:].max() - drawn[96:].min()) <= 1
    assert int(drawn[:96].max()) == 1


def test_the_average_is_the_mean_of_all_states():
    module = nn.BatchNorm1d(2)
    average = WeightAverage(module)
    states = []
    for value in (1.0, 4.0, 10.0):
        with torch.no_grad():
            module.weight.fill_(value)
            module.running_mean.fill_(2 * value)
        average.update()
        states.append(value)
    assert average.mean["weight"].tolist() == pytest.approx([5.0, 5.0])
    assert average.mean["running_mean"].tolist() == pytest.approx([10.0, 10.0])
