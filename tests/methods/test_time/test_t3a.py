"""T3A by hand: who joins, who stays, and what the prototypes answer."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold.classifier.entropy import marginal_entropy, prediction_entropy
from homefold.classifier.memory import class_prototypes, most_confident
from homefold.errors import ConfigError
from homefold.methods import ImageSet


def layer_of(rows):
    layer = nn.Linear(len(rows[0]), len(rows))
    layer.load_state_dict({"weight": torch.tensor(rows), "bias": torch.zeros(len(rows))})
    return layer


def test_the_most_confident_of_each_class_stay():
    entropy = torch.tensor([0.5, 0.1, 0.3, 0.2, 0.3, 0.4])
    labels = torch.tensor([0, 0, 0, 1, 1, 1])
    assert sorted(most_confident(entropy, labels, 2).tolist()) == [1, 2, 3, 4]
    assert sorted(most_confident(entropy, labels, 1).tolist()) == [1, 3]
    assert len(most_confident(entropy, labels, 9)) == 6


def test_of_equally_confident_ones_the_first_stays():
    assert most_confident(torch.tensor([0.2, 0.2, 0.2]), torch.tensor([1, 1, 1]), 1).tolist() == [0]


def test_a_prototype_is_the_direction_of_the_mean_of_its_supports():
    supports = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    half = 0.5**0.5
    found = class_prototypes(supports, torch.tensor([0, 0, 2]), 3)
    torch.testing.assert_close(found, torch.tensor([[half, half], [0, 0], [0, -1]]))


def test_the_layers_weights_join_the_class_that_the_layer_answers_for_them(toy):
    # The second row's own answer is class 0, so class 1 has no support and its prototype is zero.
    layer = layer_of([[4.0, 1.0, 0.0], [1.0, 0.5, 0.0]])
    pixels = np.array([[[[255, 0, 0]]]], dtype=np.uint8)
    found = toy(nn.Flatten(), layer).wrapped_by("t3a", supports=9).answer(ImageSet(pixels, "x"))
    supports = np.array([[4, 1, 0], [1, 0.5, 0], [1, 0, 0]])
    total = (supports / np.linalg.norm(supports, axis=1, keepdims=True)).sum(axis=0)
    logit = (total / np.linalg.norm(total))[0]
    assert found.predictions.probabilities[0, 0] == pytest.approx(1 / (1 + math.exp(-logit)), abs=1e-6)


def test_entropies_by_hand():
    sure = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)]])
    expected = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))
    assert prediction_entropy(sure).tolist() == pytest.approx([expected, expected])
    assert float(marginal_entropy(sure)) == pytest.approx(math.log(2))
    assert float(marginal_entropy(sure[:1])) == pytest.approx(expected)
    extreme = torch.tensor([[500.0, 0.0]], requires_grad=True)
    marginal_entropy(extreme).backward()
    assert torch.isfinite(extreme.grad).all()


def test_a_batch_joins_before_it_is_answered(toy):
    # z is the pixel's colour: (1, 0, 0) and (0.6, 0.8, 0) after division by 255.
    pixels = np.array([[[[255, 0, 0]]], [[[153, 204, 0]]]], dtype=np.uint8)
    base = toy(nn.Flatten(), layer_of([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    adjusted = base.wrapped_by("t3a", supports=2, batch_size=2)
    # The layer says class 0 and class 1. Supports: {(1,0,0), (1,0,0)} and {(0,1,0), (.6,.8,0)}.
    found = adjusted.answer(ImageSet(pixels, "x")).predictions.probabilities
    prototypes = np.array([[1, 0, 0], np.array([0.3, 0.9, 0]) / np.hypot(0.3, 0.9)])
    logits = pixels.reshape(2, 3) / 255 @ prototypes.T
    expected = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert found == pytest.approx(expected, abs=1e-6)


def test_with_one_support_a_class_only_the_surest_counts(toy):
    # The layer's own weights are answered with more confidence than the shorter features, so they stay.
    pixels = np.array([[[[153, 204, 0]]]], dtype=np.uint8)
    base = toy(nn.Flatten(), layer_of([[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]))
    found = base.wrapped_by("t3a", supports=1).answer(ImageSet(pixels, "x")).predictions.probabilities
    assert found[0, 1] == pytest.approx(1 / (1 + math.exp(0.6 - 0.8)), abs=1e-6)


def test_it_needs_a_linear_layer(toy):
    hidden = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    with pytest.raises(ConfigError, match=r"t3a replaces the weights of a linear layer.*classifier\.kind=linear"):
        toy(nn.Flatten(), hidden).wrapped_by("t3a")


@given(
    st.lists(st.tuples(st.sampled_from([0.1, 0.2, 0.3]), st.integers(0, 2)), min_size=1, max_size=12), st.integers(1, 4)
)
def test_who_stays_agrees_with_a_slow_reference(pairs, count):
    expected = []
    for label in range(3):
        members = [(entropy, index) for index, (entropy, own) in enumerate(pairs) if own == label]
        expected += [index for _, index in sorted(members)[:count]]
    entropy, labels = (torch.tensor(column) for column in zip(*pairs, strict=True))
    assert sorted(most_confident(entropy, labels, count).tolist()) == sorted(expected)
