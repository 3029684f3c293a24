"""The A-distance on cases whose answer is known."""

from __future__ import annotations

import numpy as np
import pytest

from homefold.report.figures.distances import a_distance, mean_pairwise_a_distance


def clouds(distance: float, n: int = 200, dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    shift = np.zeros(dim)
    shift[0] = distance
    return random.normal(size=(n, dim)), random.normal(size=(n, dim)) + shift


def test_clouds_far_apart_are_always_told_apart() -> None:
    assert a_distance(*clouds(20)) == 2.0


def test_two_samples_of_one_cloud_can_only_be_guessed() -> None:
    assert abs(a_distance(*clouds(0))) < 0.3


def test_an_error_of_one_in_ten_gives_one_point_six() -> None:
    """Of each side one sample in ten carries the other side's feature, so the best line errs on exactly these."""
    side = np.where(np.arange(100) % 10 == 0, -1.0, 1.0)[:, None]
    assert a_distance(side, -side) == pytest.approx(2 * (1 - 2 * 0.1))


def test_the_scale_of_a_feature_does_not_matter() -> None:
    first, second = clouds(1.0)
    scale = np.array([1e-3, 1e4, 1.0, 1e2])
    assert a_distance(first * scale, second * scale) == pytest.approx(a_distance(first, second))


def test_no_more_than_the_wanted_samples_are_used_and_sides_are_equal() -> None:
    first, second = clouds(1.0, n=60)
    repeated = np.concatenate([first] * 20)
    # one sample in each fold of five: an unbalanced set would be answered with the larger side alone
    assert a_distance(repeated, second[:30], samples=30) < 1.9
    with pytest.raises(ValueError, match="needs 5 features of each"):
        a_distance(first, second[:4])


def test_pairs_of_domains_are_averaged() -> None:
    random = np.random.default_rng(0)
    near, far = random.normal(size=(100, 3)), random.normal(size=(50, 3)) + 30
    features, domains = np.concatenate([near, far]), np.repeat([0, 1, 2], 50)
    same = a_distance(near[:50], near[50:])
    assert mean_pairwise_a_distance(features, domains) == pytest.approx((same + 2 + 2) / 3)
    assert mean_pairwise_a_distance(near, np.zeros(100)) is None
