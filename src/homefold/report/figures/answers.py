"""What is taken for what, and whether answers can be believed: calibration, and accuracy when abstaining."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, canvas
from homefold.report.names import short_name
from homefold.report.runs import RunFolder, Setup
from homefold.report.selecting import Found, shown_by_target, shown_runs, whole_sources, whose
from homefold.runtime.text import counted

__all__ = ["confusion_matrices", "coverage_curve", "coverage_curves", "reliability", "reliability_diagrams"]

_MOST_WRITTEN = 12
_MOST_NAMED = 30
_MOST_POINTS = 400
_LEAST_COVERAGE = 0.05


@figure("Confusion matrices", family="Answers", needs="answers kept as artifacts", place=12)
def confusion_matrices(folder: RunFolder) -> Iterator[Figure]:
    """What is taken for what on each target, all seeds together."""
    for setup, method, target, pairs in shown_by_target(folder, "labels", "predicted"):
        yield _confusion(setup, method, target, pairs)


def _confusion(setup: Setup, method: str, target: str, pairs: Found) -> Figure:
    labels, predicted = (_together(pairs, name).astype(int) for name in ("labels", "predicted"))
    artifact = pairs[0][1]
    classes = max(len(artifact.arrays.get("class_names", ())), int(max(labels.max(), predicted.max())) + 1)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (labels, predicted), 1)
    shares = 100 * counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    names = [artifact.class_name(label) for label in range(classes)]
    with canvas(height=4.9) as drawn:
        axis = drawn.axes
        axis.grid(visible=False)
        axis.imshow(shares, cmap="Blues", vmin=0, vmax=100)
        axis.spines[:].set_visible(False)
        if classes <= _MOST_NAMED:
            axis.set_xticks(range(classes), names, rotation=45 if max(map(len, names)) > 2 else 0, ha="center")
            axis.set_yticks(range(classes), names)
        axis.tick_params(length=0)
        axis.set_xlabel("answered")
        axis.set_ylabel("true")
        if classes <= _MOST_WRITTEN:
            for (i, j), share in np.ndenumerate(shares):
                colour = "#fefefe" if share > 55 else "#111111"
                axis.text(j, i, f"{share:.0f}", ha="center", va="center", color=colour, fontsize=8)
    accuracy = 100 * float((labels == predicted).mean())
    caption = (
        f"{setup.title}, {short_name(method)}. Rows: true class, in % of its images; n = {len(labels)} answers from "
        f"{counted(len(pairs), 'seed')}; accuracy {accuracy:.1f} %."
    )
    off = counts - np.diag(np.diag(counts))
    i, j = np.unravel_index(int(off.argmax()), off.shape)
    worst = f"; most frequent mistake: {names[i]} taken for {names[j]} ({off[i, j]:.0f} times)" if off.any() else ""
    alt = f"Confusion matrix of {classes} classes on {target}: {accuracy:.1f} % on the diagonal{worst}."
    name, title = whose(method)
    return drawn.named(f"confusion-{target}{name}-{setup.slug}", f"Confusion on {target}{title}", caption, alt)


class Reliability(NamedTuple):
    """Answers by bins `(bins,)`: how many, how sure and how often right (NaN in an empty one), and the ECE of them all.

    That is the expected calibration error: |accuracy − confidence|, weighted by the counts.
    """

    counts: np.ndarray
    confidence: np.ndarray
    accuracy: np.ndarray
    error: float


def reliability(probabilities: np.ndarray, labels: np.ndarray, bins: int = 15) -> Reliability:
    """How sure answers, `probabilities: (n, classes)`, are beside how often they are right, as `labels: (n,)` say.

    The bins are of equal width over confidences from 0 to 1; each holds its upper edge.
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
    """Coverage and accuracy of the answers kept when those with the highest scores `(n,)` are abstained from.

    Both are `(distinct scores,)`, from the fewest answers kept to all of them: equal scores go together.
    """
    order = np.argsort(scores, kind="stable")
    kept = np.arange(1, len(scores) + 1)
    accuracy = np.cumsum(np.asarray(right)[order]) / kept
    last_of_equal = np.append(np.diff(scores[order]) != 0, True)
    return kept[last_of_equal] / len(scores), accuracy[last_of_equal]


@figure("Calibration", family="Answers", needs="probabilities kept as artifacts", place=13)
def reliability_diagrams(folder: RunFolder) -> Iterator[Figure]:
    """Whether confidence can be believed: of what projects before and after that, of a method of a plugin as it is."""
    for setup, runs in whole_sources(folder):
        for method, found in shown_runs(folder, runs, "labels", "probabilities"):
            yield _reliability(setup, method, found)


def _reliability(setup: Setup, method: str, pairs: Found) -> Figure:
    labels = _together(pairs, "labels")
    projects = all(artifact.has("probabilities_before") for _, artifact in pairs)
    before = [("before projection", "probabilities_before", BEFORE, "s")] if projects else []
    after = ("after projection" if projects else "answers", "probabilities", AFTER, "o")
    found = {
        label: (reliability(_together(pairs, name), labels), colour, marker)
        for label, name, colour, marker in (*before, after)
    }
    with canvas(height=4.6, nrows=2, sharex=True, height_ratios=(3, 1)) as drawn:
        axis, below = drawn.axes
        axis.plot([0, 1], [0, 1], color="#555555", linestyle="--", linewidth=1, label="perfect")
        for label, (bins, colour, marker) in found.items():
            edges = np.linspace(0, 1, len(bins.counts) + 1)
            filled = bins.counts > 0
            named = f"{label}, ECE {100 * bins.error:.1f} %"
            axis.plot(bins.confidence[filled], bins.accuracy[filled], color=colour, marker=marker, label=named)
            below.stairs(bins.counts / bins.counts.sum() * 100, edges, color=colour, linewidth=1.5)
        axis.set_ylabel("share that is right")
        axis.set_ylim(0, 1.02)
        below.set_ylabel("% of answers")
        below.set_xlabel("confidence")
        drawn.legend(axis, columns=2)
    caption = (
        f"{setup.title}, {short_name(method)}. Reliability in {len(bins.counts)} bins of equal width; ECE: expected "
        f"calibration error; n = {len(labels)} answers from {counted(len(pairs), 'run')} on all targets."
    )
    errors = " and ".join(f"{100 * bins.error:.1f} % {label}" for label, (bins, _, _) in found.items())
    name, title = whose(method)
    alt = f"Reliability diagram: expected calibration error {errors}."
    return drawn.named(f"reliability{name}-{setup.slug}", f"Calibration{title}", caption, alt)


@figure("Accuracy against coverage", family="Answers", needs="scores and probabilities kept as artifacts", place=14)
def coverage_curves(folder: RunFolder) -> Iterator[Figure]:
    """Accuracy on the answers that are given when the least sure or those farthest off the manifold are not."""
    for setup, method, target, pairs in shown_by_target(folder, "labels", "predicted"):
        yield from _coverage(setup, method, target, pairs)


def _coverage(setup: Setup, method: str, target: str, pairs: Found) -> Iterator[Figure]:
    right = _together(pairs, "labels") == _together(pairs, "predicted")
    orders = _orders(pairs)
    if not orders:
        return
    accuracy, words = 100 * float(right.mean()), []
    with canvas(height=3.2) as drawn:
        axis = drawn.axes
        for name, (order, colour, line) in orders.items():
            coverage, kept_accuracy = coverage_curve(order, right)
            shown = coverage >= _LEAST_COVERAGE
            step = max(1, math.ceil(int(shown.sum()) / _MOST_POINTS))
            x, y = coverage[shown][::-1][::step], kept_accuracy[shown][::-1][::step]
            axis.plot(100 * x, 100 * y, line, color=colour, label=f"by {name}")
            at_half = 100 * float(np.interp(0.5, coverage, kept_accuracy))
            words.append(f"{at_half:.1f} % by {name}")
        axis.axhline(accuracy, color="#555555", linestyle=":", linewidth=1, label="answering all")
        axis.set_xlabel("coverage: images answered, %")
        axis.set_ylabel("accuracy, %")
        axis.set_xlim(0, 101)
        drawn.legend()
    caption = (
        f"{setup.title}, {short_name(method)}. Accuracy on the images answered when the others are abstained from; "
        f"n = {len(right)} answers from {counted(len(pairs), 'seed')}."
    )
    alt = f"Accuracy against coverage on {target}: {accuracy:.1f} % answering all; answering half, {', '.join(words)}."
    name, title = whose(method)
    yield drawn.named(f"coverage-{target}{name}-{setup.slug}", f"Abstaining on {target}{title}", caption, alt)


def _orders(pairs: Found) -> dict[str, tuple[np.ndarray, str, str]]:
    """By what is abstained, the first to go having the highest score: scores `(n,)`, colour and line."""
    orders = {}
    if all(artifact.has("off_manifold") and np.isfinite(artifact["off_manifold"]).all() for _, artifact in pairs):
        orders["off-manifold score"] = (_together(pairs, "off_manifold").astype(np.float64), AFTER, "-")
    if all(artifact.has("probabilities") for _, artifact in pairs):
        confidence = _together(pairs, "probabilities").astype(np.float64).max(axis=1)
        orders["lack of confidence"] = (-confidence, BEFORE, "--")
    return orders


def _together(pairs: Found, name: str) -> np.ndarray:
    return np.concatenate([artifact[name] for _, artifact in pairs])
