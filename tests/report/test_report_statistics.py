"""What several seeds say, against hand computation."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from homefold.report.statistics import compare, summarise


def test_mean_spread_and_interval_of_three_values() -> None:
    summary = summarise([80.0, 82.0, 87.0])
    assert summary is not None
    assert summary.mean == pytest.approx(83.0)
    # deviations −3, −1, 4: squares add up to 26, over n − 1 = 2
    assert summary.std == pytest.approx(math.sqrt(13))
    # the 97.5 % point of Student's t with two degrees of freedom is 4.302653
    half = 4.302653 * math.sqrt(13) / math.sqrt(3)
    assert (summary.low, summary.high) == pytest.approx((83 - half, 83 + half), abs=1e-5)


def test_one_value_has_no_spread_and_none_has_no_mean() -> None:
    summary = summarise([80.0])
    assert summary is not None
    assert (summary.mean, summary.std, summary.low, summary.n) == (80.0, None, None, 1)
    assert summarise([]) is None


def test_the_paired_test_uses_the_seeds_that_both_have() -> None:
    found = compare({0: 80.0, 1: 83.0, 2: 85.0, 9: 0.0}, {0: 79.0, 1: 80.0, 2: 83.0, 7: 50.0})
    assert found is not None
    # differences 1, 3, 2: mean 2, standard deviation 1, so t = 2·√3 with two degrees of freedom
    t = 2 * math.sqrt(3)
    assert found.difference == pytest.approx(2.0)
    assert found.p == pytest.approx(1 - t / math.sqrt(t * t + 2))


def test_a_single_seed_or_a_constant_difference_cannot_be_tested() -> None:
    assert compare({0: 1.0}, {1: 2.0}) is None
    alone = compare({0: 3.0}, {0: 1.0})
    assert alone is not None
    assert (alone.difference, alone.p) == (2.0, None)
    constant = compare({0: 3.0, 1: 4.0}, {0: 1.0, 1: 2.0})
    assert constant is not None
    assert constant.p is None
    same = compare({0: 3.0, 1: 4.0}, {0: 3.0, 1: 4.0})
    assert same is not None
    assert same.p == 1.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=3, max_size=8))
def test_the_paired_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    differences = [a - b for a, b in pairs]
    if max(differences) - min(differences) < 1e-3:
        return
    found = compare(dict(enumerate(a for a, _ in pairs)), dict(enumerate(b for _, b in pairs)))
    assert found is not None
    assert found.p == pytest.approx(stats.ttest_rel(*zip(*pairs, strict=True)).pvalue, rel=1e-6)
