"""How often a model is right on images that nobody labelled, judged by how sure it is of them.

Four ways, fitted on held-out source images, of which the first and the last are averaged:

- `thresholded`: average thresholded confidence (Garg et al., ICLR 2022): the share of new images whose confidence is
  above the one that as many held-out images exceed as are right;
- `difference`: difference of confidences (Guillory et al., ICCV 2021): the held-out accuracy less what the mean
  confidence has lost;
- `agreement`: the answers with and without projection differ more often; errors grow alike;
- `confidence`: the mean confidence, lowered by the temperature where held-out answers are surer than they are right.

None sees what a confident network gets wrong with confidence, so all tend to be too high far from the sources.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from homefold.classifier.temperature import fit_temperature
from homefold.runtime.seeding import derive_seed

__all__ = [
    "AccuracyEstimate",
    "Judged",
    "agreement",
    "average_thresholded_confidence",
    "difference_of_confidences",
    "estimate_accuracy",
    "tempered",
]

_AVERAGED = ("thresholded", "confidence")
_DRAWS = 400
_SHARE = 0.9
# By how much the truth lay outside all estimates and draws at most, in nine of ten cases of study/check.md.
_MISSED = 0.06
_SMALLEST = 1e-12


@dataclass(frozen=True, eq=False)
class Judged:
    """Answers, with and without projection: `(n, classes)` probabilities each."""

    probabilities: np.ndarray
    plain: np.ndarray

    def __len__(self) -> int:
        return len(self.probabilities)

    @property
    def agree(self) -> np.ndarray:
        """`(n,)` whether both give the same label."""
        same: np.ndarray = self.probabilities.argmax(axis=1) == self.plain.argmax(axis=1)
        return same


@dataclass(frozen=True)
class AccuracyEstimate:
    """What is believed of the accuracy on new images; shares of one."""

    estimate: float
    """The mean of thresholded and confidence; the others added error (study/check.md)."""
    low: float
    high: float
    """Between them lie nine of ten estimates on images drawn anew and every single one, and what these usually miss."""
    estimates: dict[str, float]
    """By its name: thresholded, difference, agreement, confidence."""
    held_out_accuracy: float
    """On held-out source images."""
    temperature: float
    """That confidences were divided by, fitted on held-out source images."""
    threshold: float
    """Of the confidence, for `thresholded`."""


def tempered(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """Probabilities `(n, classes)` as softmax(logits / T) would have them."""
    logits = np.log(np.maximum(probabilities.astype(np.float64), _SMALLEST)) / temperature
    scaled = np.exp(logits - logits.max(axis=1, keepdims=True))
    found: np.ndarray = scaled / scaled.sum(axis=1, keepdims=True)
    return found


def _threshold(held: np.ndarray, right: np.ndarray) -> float:
    """The confidence that as many held-out answers reach as are right; above all of them where none is."""
    count = int(right.sum())
    return float(np.sort(held)[::-1][count - 1]) if count else math.inf


def average_thresholded_confidence(held: np.ndarray, right: np.ndarray, new: np.ndarray) -> float:
    """The share of new confidences `(k,)` that reach what as many of `held: (n,)` reach as are `right: (n,)`."""
    return float((new >= _threshold(held, right)).mean())


def difference_of_confidences(held: np.ndarray, right: np.ndarray, new: np.ndarray) -> float:
    """The held-out accuracy, less what the mean confidence has lost, between 0 and 1."""
    return float(np.clip(right.mean() + new.mean() - held.mean(), 0, 1))


def agreement(held: np.ndarray, right: np.ndarray, new: np.ndarray) -> float:
    """The held-out accuracy, less how much seldomer answers with and without projection agree, between 0 and 1.

    Args:
        held, new: `(n,)` and `(k,)` whether they agree.
        right: `(n,)`.
    """
    return difference_of_confidences(held.astype(np.float64), right, new.astype(np.float64))


def estimate_accuracy(held: Judged, labels: np.ndarray, new: Judged, *, seed: int = 0) -> AccuracyEstimate:
    """The accuracy of `new` answers, from held-out ones with their true `labels: (n,)`."""
    right = held.probabilities.argmax(axis=1) == labels
    logits = torch.from_numpy(np.log(np.maximum(held.probabilities.astype(np.float64), _SMALLEST)))
    temperature = fit_temperature(logits, torch.from_numpy(labels))
    before, after = (tempered(each.probabilities, temperature).max(axis=1) for each in (held, new))

    # Answers that are less sure than they could be are left so: that is the safer error.
    sure = after if temperature > 1 else new.probabilities.max(axis=1)

    def single(rows: np.ndarray, columns: np.ndarray) -> dict[str, float]:
        known, there = right[rows], after[columns]
        return {
            "thresholded": average_thresholded_confidence(before[rows], known, there),
            "difference": difference_of_confidences(before[rows], known, there),
            "agreement": agreement(held.agree[rows], known, new.agree[columns]),
            "confidence": float(sure[columns].mean()),
        }

    estimates = single(np.arange(len(held)), np.arange(len(new)))
    random = np.random.default_rng(derive_seed(seed, "accuracy estimate"))
    drawn = [
        _together(single(random.integers(len(held), size=len(held)), random.integers(len(new), size=len(new))))
        for _ in range(_DRAWS)
    ]
    low, high = np.quantile(drawn, [(1 - _SHARE) / 2, (1 + _SHARE) / 2])
    return AccuracyEstimate(
        estimate=_together(estimates),
        low=max(0.0, min(float(low), *estimates.values()) - _MISSED),
        high=min(1.0, max(float(high), *estimates.values()) + _MISSED),
        estimates=estimates,
        held_out_accuracy=float(right.mean()),
        temperature=temperature,
        threshold=_threshold(before, right),
    )


def _together(estimates: Mapping[str, float]) -> float:
    return float(np.mean([estimates[name] for name in _AVERAGED]))
