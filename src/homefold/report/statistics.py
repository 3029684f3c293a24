"""What several seeds say: mean, spread, confidence interval, and a paired comparison."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

__all__ = ["NOTHING", "SURE_BELOW", "Comparison", "Summary", "compare", "summarise", "summarise_percent"]

CONFIDENCE = 0.95
SURE_BELOW = 0.05
"""Seeds support a difference whose p is below this."""


@dataclass(frozen=True)
class Summary:
    """The mean of some values and how sure it is.

    Args:
        std: the sample's standard deviation (n − 1 below the sum); None for a single value.
        low: lower end of the 95 % confidence interval of the mean (Student's t); None for a single value.
        high: its upper end.
    """

    mean: float
    std: float | None
    low: float | None
    high: float | None
    n: int


NOTHING = Summary(math.nan, None, None, None, 0)
"""Stands for the summary of no values where something is drawn."""


@dataclass(frozen=True)
class Comparison:
    """Values against a control's with the same seeds.

    Args:
        difference: mean of value − control.
        p: of a two-sided paired t-test; None with a single seed, and when every seed differs by the same amount
            other than zero, of which the test cannot say how likely it is.
    """

    difference: float
    p: float | None

    @property
    def sure(self) -> bool:
        """Whether the seeds support the difference."""
        return self.p is not None and self.p < SURE_BELOW


def summarise(values: Collection[float]) -> Summary | None:
    """Mean, standard deviation and confidence interval; None when there is no value.

    >>> summarise([1.0, 3.0]).mean
    2.0
    """
    n = len(values)
    if n == 0:
        return None
    mean = float(np.mean(list(values)))
    if n == 1:
        return Summary(mean, None, None, None, 1)
    std = float(np.std(list(values), ddof=1))
    half = float(stats.t.ppf(0.5 + CONFIDENCE / 2, n - 1)) * std / math.sqrt(n)
    return Summary(mean, std, mean - half, mean + half, n)


def summarise_percent(values: Collection[float]) -> Summary | None:
    """`summarise` of shares in %: what of the interval lies below 0 or above 100 is cut off, since no mean lies there.

    >>> summarise_percent([98.0, 100.0]).high
    100.0
    """
    summary = summarise(values)
    if summary is None or summary.low is None or summary.high is None:
        return summary
    return replace(summary, low=max(0.0, summary.low), high=min(100.0, summary.high))


def compare(values: Sequence[Mapping[int, float]], control: Sequence[Mapping[int, float]]) -> Comparison | None:
    """A paired test of values by seed, of each target: over the seeds that both have on every target, or None.

    The targets are given and the seeds are the sample. So the spread of the differences is taken within each target,
    and its degrees of freedom are Welch and Satterthwaite's; of one target it is the plain paired t-test.

    >>> compare([{0: 2.0, 1: 3.0}], [{0: 1.0, 1: 1.0}]).difference
    1.5
    """
    seeds = sorted(set.intersection(*(set(of_target) for of_target in (*values, *control))))
    if not seeds:
        return None
    pairs = zip(values, control, strict=True)
    differences = np.array([[ours[seed] - others[seed] for seed in seeds] for ours, others in pairs])
    return Comparison(float(differences.mean()), _paired_p(differences))


def _paired_p(differences: np.ndarray) -> float | None:
    """p of differences `(targets, seeds)`."""
    targets, seeds = differences.shape
    if seeds < 2:
        return None
    if np.ptp(differences, axis=1).max() <= 1e-9:
        return 1.0 if abs(differences.mean()) <= 1e-9 else None
    variances = differences.var(axis=1, ddof=1) / seeds
    freedom = variances.sum() ** 2 / (variances**2 / (seeds - 1)).sum()
    t = targets * differences.mean() / math.sqrt(variances.sum())
    return float(2 * stats.t.sf(abs(t), freedom))
