"""Estimates of the accuracy without labels, against slow references and where the truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homefold.stages.accuracy_estimate import (
    Judged,
    agreement,
    average_thresholded_confidence,
    difference_of_confidences,
    estimate_accuracy,
    tempered,
)


def drawn(count: int, sharpness: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities of three classes that are as right as they say, and labels drawn from them."""
    random = np.random.default_rng(seed)
    logits = sharpness * random.normal(size=(count, 3))
    probabilities = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = (probabilities.cumsum(axis=1) < random.random((count, 1))).sum(axis=1)
    return probabilities, labels.clip(0, 2)


def slow_thresholded(held: list[float], right: list[bool], new: list[float]) -> float:
    """Every threshold tried: the highest that at least as many held-out answers reach as are right."""
    best = None
    for threshold in sorted(held):
        if sum(value >= threshold for value in held) >= sum(right):
            best = threshold
    assert best is not None
    return sum(value >= best for value in new) / len(new)


answers = st.lists(st.tuples(st.integers(0, 20).map(lambda i: i / 20), st.booleans()), min_size=1, max_size=30)


@given(answers, st.lists(st.integers(0, 20).map(lambda i: i / 20), min_size=1, max_size=30))
def test_the_threshold_is_that_of_trying_every_one(known, new):
    held, right = (list(column) for column in zip(*known, strict=True))
    found = average_thresholded_confidence(np.array(held), np.array(right), np.array(new))
    assert found == (slow_thresholded(held, right, new) if any(right) else 0.0)


def test_the_difference_of_confidences_is_what_the_mean_lost():
    held, right = np.array([0.9, 0.8, 0.7, 1.0]), np.array([True, True, False, True])
    assert difference_of_confidences(held, right, np.array([0.6, 0.7])) == pytest.approx(0.75 - (0.85 - 0.65))
    assert difference_of_confidences(held, right, np.zeros(3)) == 0
    assert difference_of_confidences(held, right, np.array([1.0])) == pytest.approx(0.9)


def test_agreement_counts_how_much_seldomer_both_answers_agree():
    held, right = np.array([True] * 9 + [False]), np.array([True] * 8 + [False] * 2)
    assert agreement(held, right, np.array([True, True, True, False, False])) == pytest.approx(0.8 - (0.9 - 0.6))


def test_without_a_shift_every_estimate_is_right():
    held, labels = drawn(4000, 2.0, 0)
    new, truth = drawn(4000, 2.0, 1)
    found = estimate_accuracy(Judged(held, held), labels, Judged(new, new))
    accuracy = (new.argmax(axis=1) == truth).mean()
    assert found.held_out_accuracy == (held.argmax(axis=1) == labels).mean()
    for value in [found.estimate, *found.estimates.values()]:
        assert value == pytest.approx(accuracy, abs=0.03)
    assert found.low <= accuracy <= found.high
    assert 0.12 <= found.high - found.low < 0.2


def test_where_answers_know_when_they_are_unsure_a_shift_is_seen():
    held, labels = drawn(4000, 3.0, 0)
    new, truth = drawn(4000, 0.8, 1)
    found = estimate_accuracy(Judged(held, held), labels, Judged(new, new))
    accuracy = (new.argmax(axis=1) == truth).mean()
    assert accuracy < found.held_out_accuracy - 0.15
    assert found.estimates["difference"] == pytest.approx(accuracy, abs=0.04)
    assert found.estimates["thresholded"] < found.held_out_accuracy - 0.1


def test_overconfidence_is_taken_back_by_the_temperature():
    held, labels = drawn(4000, 2.0, 0)
    new, truth = drawn(4000, 2.0, 1)
    over = [tempered(each, 0.4) for each in (held, new)]
    found = estimate_accuracy(Judged(over[0], over[0]), labels, Judged(over[1], over[1]))
    assert found.temperature == pytest.approx(2.5, rel=0.1)
    accuracy = (new.argmax(axis=1) == truth).mean()
    assert over[1].max(axis=1).mean() > accuracy + 0.05
    assert found.estimates["confidence"] == pytest.approx(accuracy, abs=0.03)
    assert found.estimates["difference"] == pytest.approx(accuracy, abs=0.03)


def test_answers_that_are_less_sure_than_they_could_be_are_left_so():
    held, labels = drawn(4000, 2.0, 0)
    new, _ = drawn(4000, 2.0, 1)
    under = [tempered(each, 2.0) for each in (held, new)]
    found = estimate_accuracy(Judged(under[0], under[0]), labels, Judged(under[1], under[1]))
    assert found.temperature < 1
    assert found.estimates["confidence"] == pytest.approx(under[1].max(axis=1).mean())


def test_the_same_images_give_the_same_interval_and_fewer_a_wider_one():
    held, labels = drawn(500, 2.0, 0)
    new, _ = drawn(500, 2.0, 1)
    first, again = (estimate_accuracy(Judged(held, held), labels, Judged(new, new)) for _ in range(2))
    assert first == again
    few = estimate_accuracy(Judged(held[:30], held[:30]), labels[:30], Judged(new[:30], new[:30]))
    missed = 0.12
    assert few.high - few.low - missed > 2 * (first.high - first.low - missed)


@pytest.mark.parametrize("right", [True, False])
def test_held_out_answers_that_are_all_right_or_all_wrong_give_numbers(right):
    held, _ = drawn(20, 2.0, 0)
    labels = held.argmax(axis=1) if right else held.argmin(axis=1)
    found = estimate_accuracy(Judged(held, held), labels, Judged(held[:1], held[:1]))
    assert 0 <= found.low <= found.estimate <= found.high <= 1
    assert found.held_out_accuracy == right
