"""What is advised fits what was found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homefold.stages.accuracy_estimate import AccuracyEstimate
from homefold.stages.advice import advice_on
from homefold.stages.two_sample import TwoSampleTest

GOOD = AccuracyEstimate(0.9, 0.85, 0.95, {}, 0.9, 1.0, 0.5)
CALM = {
    "images": 200,
    "accuracy": GOOD,
    "two_sample": TwoSampleTest(0.5, 0.5, 100),
    "far": 0.05,
    "duplicates": 0,
    "shares": {"cat": (0.5, 0.5)},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, "Nothing here speaks against"),
        ({"accuracy": replace(GOOD, estimate=0.7)}, "about 20 points less"),
        ({"accuracy": replace(GOOD, estimate=0.85)}, "differ from the sources"),
        ({"two_sample": TwoSampleTest(0.9, 1e-6, 100)}, "differ from the sources"),
        ({"far": 0.4}, "40 % lie farther out"),
        ({"duplicates": 3}, "Remove the 3 images"),
        ({"shares": {"cat": (0.8, 0.5)}}, "cat is expected in 80 %"),
        ({"images": 12}, "12 images are few"),
    ],
)
def test_it_fits_what_was_found(changes, said):
    advice = advice_on(**{**CALM, **changes})
    assert any(said in sentence for sentence in advice)
    assert len(advice) <= 2


def test_without_an_estimate_nothing_is_said_of_the_accuracy():
    assert advice_on(**{**CALM, "accuracy": None, "two_sample": None}) == ()
