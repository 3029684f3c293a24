"""Answers to one label drawn together: the loss against a loop, its gradient, its place in the objective."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional as F

from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.agreement import agreement_loss
from homefold.features.objective import Objective


def slow_agreement(logits, labels, temperature):
    """Image by image, in Python floats."""
    answers = []
    for row in logits.tolist():
        weights = [math.exp(value / temperature) for value in row]
        answers.append([weight / sum(weights) for weight in weights])
    total = 0.0
    for answer, label in zip(answers, labels.tolist(), strict=True):
        peers = [other for other, other_label in zip(answers, labels.tolist(), strict=True) if other_label == label]
        means = [sum(column) / len(peers) for column in zip(*peers, strict=True)]
        total += sum(mean * math.log(mean / own) for mean, own in zip(means, answer, strict=True))
    return temperature**2 * total / len(answers)


@given(n=st.integers(1, 8), k=st.integers(1, 4), temperature=st.floats(0.5, 8), seed=st.integers(0, 2**31))
def test_equals_the_loop_over_images(n, k, temperature, seed):
    random = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(n, k, generator=random, dtype=torch.float64)
    labels = torch.randint(k, (n,), generator=random)
    found = float(agreement_loss(logits, labels, temperature))
    assert found == pytest.approx(slow_agreement(logits, labels, temperature), abs=1e-9)


def test_is_zero_where_all_answers_to_a_label_are_alike_and_where_there_is_only_one():
    logits = torch.tensor([[2.0, 0.0, -1.0], [0.5, 0.2, 0.1], [2.0, 0.0, -1.0]], requires_grad=True)
    loss = agreement_loss(logits, torch.tensor([0, 1, 0]), 4.0)
    loss.backward()
    assert loss.item() == pytest.approx(0, abs=1e-6)
    assert logits.grad.abs().max() < 1e-6


def test_draws_each_answer_to_the_mean_which_is_a_constant():
    logits = torch.tensor([[2.0, 0.0], [0.0, 1.0], [1.0, 1.0]], requires_grad=True)
    agreement_loss(logits, torch.tensor([0, 0, 1]), 2.0).backward()
    answers = F.softmax(logits.detach() / 2, dim=1)
    mean = answers[:2].mean(0)
    # d/dlogits of T² KL(m ‖ softmax(logits / T)) is T (softmax − m).
    expected = 2 * torch.stack([answers[0] - mean, answers[1] - mean, torch.zeros(2)]) / 3
    torch.testing.assert_close(logits.grad, expected)


def test_the_objective_adds_it_with_its_weight_and_fades_it_with_the_cross_entropy():
    torch.manual_seed(0)
    z, labels = torch.randn(9, 5), torch.arange(9) % 3
    objective = Objective(5, 3, cross_entropy_weight=0.5, agreement_weight=2.0, agreement_temperature=3.0)
    logits = objective.classifier(z)
    added = 0.5 * F.cross_entropy(logits, labels) + 2.0 * agreement_loss(logits, labels, 3.0)
    metric = objective(z, labels, 0.0)
    torch.testing.assert_close(objective(z, labels), metric + added)
    torch.testing.assert_close(objective(z, labels, 0.25), metric + 0.25 * added)


def test_without_cross_entropy_there_are_no_answers_to_compare():
    with pytest.raises(ConfigError, match="set cross_entropy_weight above 0, or agreement_weight to 0"):
        Objective(5, 3, agreement_weight=1.0)
    with pytest.raises(ConfigError, match="set cross_entropy_weight above 0, or agreement_weight to 0"):
        FeatureConfig(agreement_weight=1.0).require_consistent()
    FeatureConfig(agreement_weight=1.0, cross_entropy_weight=0.1).require_consistent()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"agreement_weight": -1.0}, "agreement_weight must not be negative; got -1.0"),
        ({"agreement_weight": math.inf}, "agreement_weight must be a finite number; got inf"),
        ({"agreement_temperature": math.inf}, "agreement_temperature must be a finite number; got inf"),
        ({"agreement_temperature": 0.0}, "agreement_temperature must be positive; got 0.0"),
    ],
)
def test_settings_out_of_range_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        FeatureConfig(**settings)


def test_in_a_training_answers_to_one_label_end_closer_together(few_digits, quick_config):
    apart = {}
    for weight in (0.0, 3.0):
        config = replace(quick_config.features, epochs=4, cross_entropy_weight=1.0, agreement_weight=weight)
        train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
        net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
        trained = train_features(config, net, few_digits, train, held_out, seed=0, device=torch.device("cpu"))
        images = torch.from_numpy(few_digits.images[held_out]).permute(0, 3, 1, 2).float() / 255
        with torch.no_grad():
            logits = trained.objective.classifier(trained.net(images))
        labels = torch.from_numpy(few_digits.labels[held_out])
        apart[weight] = float(agreement_loss(logits, labels, 4.0))
    assert apart[3.0] < 0.8 * apart[0.0]
