"""Do new features come from where source features do? The classifier two-sample test (Lopez-Paz and Oquab, 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from homefold.runtime.seeding import derive_seed

__all__ = ["TwoSampleTest", "two_sample_test"]

_FEWEST, _MOST = 20, 500


@dataclass(frozen=True)
class TwoSampleTest:
    """How well a classifier tells new features from held-out ones that it was not trained on."""

    accuracy: float
    """0.5 is chance."""
    p_value: float
    """How probable such an accuracy, or a higher one, is if both come from the same place."""
    tested: int
    """Features that it was tested on, half of them new."""


def two_sample_test(held: np.ndarray, new: np.ndarray, *, seed: int = 0) -> TwoSampleTest | None:
    """Logistic regression trained on half of as many features of each, tested on the rest; None where there are few.

    Args:
        held, new: `(n, d)` and `(m, d)`.
        seed: of the draw.
    """
    count = min(len(held), len(new), _MOST)
    if count < _FEWEST:
        return None
    from scipy.stats import binomtest  # type: ignore[import-untyped]
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    random = np.random.default_rng(derive_seed(seed, "two-sample test"))
    parts = [each[random.permutation(len(each))[:count]].astype(np.float64) for each in (held, new)]
    half = count // 2
    train, test = (np.concatenate([part[rows] for part in parts]) for rows in (slice(half), slice(half, None)))
    is_new = [np.repeat([0, 1], size) for size in (half, count - half)]
    classifier = make_pipeline(StandardScaler(), LogisticRegression(C=0.1, max_iter=1000)).fit(train, is_new[0])
    right = int((classifier.predict(test) == is_new[1]).sum())
    p_value = binomtest(right, len(test), 0.5, alternative="greater").pvalue
    return TwoSampleTest(right / len(test), float(p_value), len(test))
