"""What several seeds say, against hand computation."""

from __future__ import annotations

import math

import numpy as np
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
    found = compare([{0: 80.0, 1: 83.0, 2: 85.0, 9: 0.0}], [{0: 79.0, 1: 80.0, 2: 83.0, 7: 50.0}])
    assert found is not None
    # differences 1, 3, 2: mean 2, standard deviation 1, so t = 2·√3 with two degrees of freedom
    t = 2 * math.sqrt(3)
    assert found.difference == pytest.approx(2.0)
    assert found.p == pytest.approx(1 - t / math.sqrt(t * t + 2))


def test_a_single_seed_or_a_constant_difference_cannot_be_tested() -> None:
    assert compare([{0: 1.0}], [{1: 2.0}]) is None
    alone = compare([{0: 3.0}], [{0: 1.0}])
    assert alone is not None
    assert (alone.difference, alone.p) == (2.0, None)
    constant = compare([{0: 3.0, 1: 4.0}], [{0: 1.0, 1: 2.0}])
    assert constant is not None
    assert constant.p is None
    same = compare([{0: 3.0, 1: 4.0}], [{0: 3.0, 1: 4.0}])
    assert same is not None
    assert same.p == 1.0


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=3, max_size=8))
def test_the_paired_test_is_scipys(pairs: list[tuple[float, float]]) -> None:
    differences = [a - b for a, b in pairs]
    if max(differences) - min(differences) < 1e-3:
        return
    found = compare([dict(enumerate(a for a, _ in pairs))], [dict(enumerate(b for _, b in pairs))])
    assert found is not None
    assert found.p == pytest.approx(stats.ttest_rel(*zip(*pairs, strict=True)).pvalue, rel=1e-6)


def test_over_targets_the_spread_is_taken_within_each() -> None:
    ours, others = [{0: 81.0, 1: 83.0}, {0: 62.0, 1: 62.5}], [{0: 80.0, 1: 80.0}, {0: 60.0, 1: 60.0}]
    found = compare(ours, others)
    assert found is not None
    # differences 1 and 3, 2 and 2.5; variances of the two means: 2/2 and 0.125/2, each with one degree of freedom
    a, b = 1.0, 0.0625
    freedom = (a + b) ** 2 / (a**2 + b**2)
    t = (2.0 + 2.25) / math.sqrt(a + b)
    assert found.difference == pytest.approx(2.125)
    assert found.p == pytest.approx(2 * stats.t.sf(t, freedom))


def test_only_seeds_that_have_every_target_are_compared() -> None:
    found = compare([{0: 2.0, 1: 3.0}, {0: 5.0}], [{0: 1.0, 1: 1.0}, {0: 1.0, 1: 1.0}])
    assert found is not None
    assert (found.difference, found.p, found.sure) == (2.5, None, False)


def test_luck_alone_is_rarely_called_a_difference() -> None:
    """Four targets of unlike means and spreads, three seeds, no difference at all: at most 5 % are sure, by design."""
    random = np.random.default_rng(0)
    levels, spreads = np.array([80.0, 60.0, 90.0, 70.0])[:, None], np.array([0.3, 2.0, 0.5, 1.0])[:, None]
    sure = 0
    for _ in range(500):
        ours, others = (
            [dict(enumerate(row)) for row in levels + spreads * random.normal(size=(4, 3))] for _ in range(2)
        )
        found = compare(ours, others)
        assert found is not None
        sure += found.sure
    assert 5 < sure < 40
