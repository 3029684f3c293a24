"""Calibration and coverage, against hand computation."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homefold.report.figures.answers import coverage_curve, reliability


def test_the_expected_calibration_error_of_four_answers() -> None:
    # confidences 0.9 (right), 0.9 (wrong), 0.6 (right), 0.6 (right) in bins of a tenth
    probabilities = np.array([[0.9, 0.1], [0.1, 0.9], [0.6, 0.4], [0.4, 0.6]])
    found = reliability(probabilities, np.array([0, 0, 0, 1]), bins=10)
    # |0.5 − 0.9| and |1 − 0.6|, half of the answers each
    assert found.error == pytest.approx(0.5 * 0.4 + 0.5 * 0.4)
    assert found.counts.tolist() == [0, 0, 0, 0, 0, 2, 0, 0, 2, 0]
    assert found.accuracy[8] == pytest.approx(0.5)
    assert np.isnan(found.confidence[0])


def test_sure_and_right_is_calibrated_also_in_half_precision() -> None:
    certain = np.eye(3, dtype=np.float16)
    assert reliability(certain, np.arange(3)).error == 0
    assert reliability(certain, np.array([1, 2, 0])).error == 1


@given(st.integers(1, 60), st.integers(0, 10))
def test_the_error_is_the_obvious_loop_over_bins(n: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    probabilities = random.dirichlet(np.ones(4), n)
    labels = random.integers(0, 4, n)
    error = 0.0
    for low in np.arange(15):
        confidence = probabilities.max(axis=1)
        inside = (confidence > low / 15) & (confidence <= (low + 1) / 15)
        if inside.any():
            right = (probabilities.argmax(axis=1) == labels)[inside].mean()
            error += inside.mean() * abs(right - confidence[inside].mean())
    assert reliability(probabilities, labels).error == pytest.approx(error)


def test_abstaining_from_the_highest_scores_first() -> None:
    coverage, accuracy = coverage_curve(np.array([0.1, 0.9, 0.5, 0.5]), np.array([True, False, True, False]))
    # kept: one of one right; then the two equal scores together, two of three; then all, two of four
    assert coverage.tolist() == [0.25, 0.75, 1.0]
    assert accuracy == pytest.approx([1.0, 2 / 3, 0.5])
