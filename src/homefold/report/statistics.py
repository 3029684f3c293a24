"""What several seeds say: mean, spread, confidence interval, and a paired comparison."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy import stats  # type: ignore[import-untyped]

__all__ = ["NOTHING", "Comparison", "Summary", "compare", "summarise", "summarise_percent"]

CONFIDENCE = 0.95


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


def compare(values: Mapping[int, float], control: Mapping[int, float]) -> Comparison | None:
    """A paired test over the seeds that both have, of values by seed; None when they share no seed."""
    seeds = sorted(set(values) & set(control))
    if not seeds:
        return None
    differences = np.array([values[seed] - control[seed] for seed in seeds])
    return Comparison(float(differences.mean()), _paired_p(differences))


def _paired_p(differences: np.ndarray) -> float | None:
    if len(differences) < 2:
        return None
    if np.ptp(differences) <= 1e-9:
        return 1.0 if np.abs(differences).max() <= 1e-9 else None
    return float(stats.ttest_1samp(differences, 0.0).pvalue)
