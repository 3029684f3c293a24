"""Tent by hand: the batch's own statistics, one step on scales and shifts, and nothing else."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from homefold.errors import ConfigError
from homefold.methods import ImageSet, find_method

PIXELS = np.random.default_rng(0).integers(0, 256, (8, 1, 1, 3)).astype(np.uint8)


@pytest.fixture
def base(toy):
    norm = nn.BatchNorm2d(3)
    norm.running_mean.fill_(0.7)
    norm.running_var.fill_(4.0)
    layer = nn.Linear(3, 2)
    layer.load_state_dict({"weight": torch.tensor([[1.0, -1.0, 0.5], [-0.5, 1.0, 0.0]]), "bias": torch.zeros(2)})
    return toy(nn.Sequential(norm, nn.Flatten()), layer)


def entropy(gamma, beta, weight):
    """Mean entropy of the answers for PIXELS, normalised by their own statistics, in float64."""
    x = PIXELS.reshape(8, 3) / 255
    z = (x - x.mean(axis=0)) / np.sqrt(x.var(axis=0) + 1e-5) * gamma + beta
    logits = z @ weight.T
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    return -(p * np.log(p)).sum(axis=1).mean(), p


def test_a_batch_is_answered_by_its_own_statistics_before_the_step(base):
    found = base.wrapped_by("tent", batch_size=8).answer(ImageSet(PIXELS, "x")).predictions.probabilities
    weight = base.trained.network.layer.weight.detach().double().numpy()
    assert found == pytest.approx(entropy(np.ones(3), np.zeros(3), weight)[1], abs=1e-5)


def test_one_step_lowers_the_entropy_by_scales_and_shifts_alone(base):
    tent = base.wrapped_by("tent", batch_size=8, learning_rate=0.01)
    layer = tent.network.layer.weight.clone()
    tent.answer(ImageSet(PIXELS, "x"))
    weight, small = layer.double().numpy(), 1e-5
    start = np.concatenate([np.ones(3), np.zeros(3)])
    slope = [
        (entropy(*np.split(start + step, 2), weight)[0] - entropy(*np.split(start - step, 2), weight)[0]) / (2 * small)
        for step in np.eye(6) * small
    ]
    moved = np.concatenate([tent.network.features[0].weight.detach(), tent.network.features[0].bias.detach()])
    # The first step of Adam has the length of its rate, whatever the gradient's.
    assert moved == pytest.approx(start - 0.01 * np.sign(slope), abs=1e-5)
    assert torch.equal(tent.network.layer.weight, layer)


def test_with_sgd_a_step_is_as_long_as_the_slope(base):
    tent = base.wrapped_by("tent", batch_size=8, learning_rate=0.01, optimiser="sgd")
    tent.answer(ImageSet(PIXELS, "x"))
    weight, small = tent.network.layer.weight.double().numpy(), 1e-5
    ends = [entropy(np.ones(3), step, weight)[0] - entropy(np.ones(3), -step, weight)[0] for step in np.eye(3) * small]
    moved = tent.network.features[0].bias.detach().numpy()
    assert moved == pytest.approx(-0.01 * np.array(ends) / (2 * small), abs=1e-6)


@pytest.mark.parametrize(
    ("backbone", "settings"), [("resnet18", ("sgd", 2.5e-4, 64)), ("digits-bn", ("adam", 1e-3, 200))]
)
def test_its_authors_step_by_the_kind_of_network(backbone, settings):
    tent = find_method("tent", backbone)
    assert (tent.optimiser, tent.learning_rate, tent.batch_size) == settings


def test_a_later_batch_profits_from_the_steps_before_it(base):
    # 16 images in two batches: the second is answered by changed scales and shifts.
    twice = ImageSet(np.concatenate([PIXELS, PIXELS]), "x")
    still = base.wrapped_by("tent", batch_size=8, learning_rate=0.0).answer(twice).predictions.probabilities
    moving = base.wrapped_by("tent", batch_size=8, learning_rate=0.01).answer(twice).predictions.probabilities
    assert int((np.abs(still - moving).max(axis=1) < 1e-7).sum()) == 8


def test_a_network_without_batch_normalisation_gets_a_sentence(toy):
    with pytest.raises(ConfigError, match=r"tent changes batch normalisation, and the network of toy has none"):
        toy(nn.Flatten(), nn.Linear(3, 2)).wrapped_by("tent")
