"""The classifier two-sample test, where it is known whether both samples come from one place."""

from __future__ import annotations

import numpy as np
import pytest

from homefold.stages.two_sample import two_sample_test


def test_samples_of_one_place_seldom_seem_to_differ():
    p_values = []
    for seed in range(60):
        random = np.random.default_rng(seed)
        found = two_sample_test(random.normal(size=(80, 6)), random.normal(size=(60, 6)), seed=seed)
        p_values.append(found.p_value)
    assert np.mean(np.array(p_values) < 0.05) <= 0.12
    assert np.mean(np.array(p_values) < 0.5) <= 0.7


@pytest.mark.parametrize("shift", [1.0, 3.0])
def test_a_shift_is_found(shift):
    random = np.random.default_rng(0)
    found = two_sample_test(random.normal(size=(300, 6)), random.normal(size=(300, 6)) + shift)
    assert found.p_value < 1e-4
    assert found.accuracy > 0.7
    assert found.tested == 300


def test_the_p_value_is_the_binomial_tail():
    from math import comb

    random = np.random.default_rng(3)
    found = two_sample_test(random.normal(size=(40, 3)), random.normal(size=(40, 3)) + 0.5)
    right, n = round(found.accuracy * found.tested), found.tested
    assert n == 40
    assert found.p_value == pytest.approx(sum(comb(n, k) for k in range(right, n + 1)) / 2**n)


def test_too_few_images_are_not_tested():
    assert two_sample_test(np.zeros((19, 2)), np.ones((100, 2))) is None
