"""Whether confidence and other scores can be believed: calibration error, accuracy against coverage, AUROC."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

__all__ = ["Reliability", "auroc", "coverage_curve", "reliability"]

BINS = 15


@dataclass(frozen=True, eq=False)
class Reliability:
    """Answers sorted into bins of equal width by their confidence.

    Args:
        counts: `(bins,)` answers in each.
        confidence: `(bins,)` their mean confidence; NaN in an empty bin.
        accuracy: `(bins,)` the share of them that is right; NaN in an empty bin.
        error: the expected calibration error: |accuracy − confidence|, weighted by the counts.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    error: float


def reliability(probabilities: np.ndarray, labels: np.ndarray, bins: int = BINS) -> Reliability:
    """Compare how sure answers are with how often they are right.

    Args:
        probabilities: `(n, classes)`.
        labels: `(n,)` the true classes.
        bins: of equal width over confidences from 0 to 1; a bin holds its upper edge.
    """
    probabilities = probabilities.astype(np.float64)
    confidence = probabilities.max(axis=1)
    right = probabilities.argmax(axis=1) == labels
    place = np.clip(np.ceil(confidence * bins).astype(int) - 1, 0, bins - 1)
    counts = np.bincount(place, minlength=bins)
    with np.errstate(invalid="ignore"):
        mean_confidence = np.bincount(place, confidence, minlength=bins) / counts
        mean_right = np.bincount(place, right, minlength=bins) / counts
    gaps = np.abs(np.nan_to_num(mean_right) - np.nan_to_num(mean_confidence))
    return Reliability(counts, mean_confidence, mean_right, float((counts * gaps).sum() / max(1, counts.sum())))


def coverage_curve(scores: np.ndarray, right: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Accuracy on the answers that are kept when those with the highest scores are abstained from.

    Args:
        scores: `(n,)`; the higher, the sooner an answer is withheld. Answers with equal scores go together.
        right: `(n,)` whether each answer is right.

    Returns:
        Coverages and accuracies, each `(distinct scores,)`, from the fewest answers kept to all of them.
    """
    order = np.argsort(scores, kind="stable")
    kept = np.arange(1, len(scores) + 1)
    accuracy = np.cumsum(np.asarray(right)[order]) / kept
    last_of_equal = np.append(np.diff(scores[order]) != 0, True)
    return kept[last_of_equal] / len(scores), accuracy[last_of_equal]


def auroc(scores: np.ndarray, positive: np.ndarray) -> float:
    """How often a positive has a higher score than a negative; equal scores count half. NaN without one of the two.

    >>> auroc(np.array([1.0, 2.0, 2.0, 3.0]), np.array([False, True, False, True]))
    0.875

    Args:
        scores: `(n,)`.
        positive: `(n,)` whether each is one that the score should be high for.
    """
    positive = np.asarray(positive, dtype=bool)
    many, few = int(positive.sum()), int((~positive).sum())
    if not many or not few:
        return math.nan
    _, place, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2
    return float((ranks[place][positive].sum() - many * (many + 1) / 2) / (many * few))
