"""Whether answers can be believed: calibration before and after the projection, and abstaining."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from homefold.evaluation.calibration import coverage_curve, reliability
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import AFTER, BEFORE, canvas, counted
from homefold.report.names import short_name
from homefold.report.runs import RunFolder, Setup
from homefold.report.selecting import Found, by_target, full_runs, whole_sources

__all__ = ["coverage_curves", "reliability_diagrams"]

_MOST_POINTS = 400
_LEAST_COVERAGE = 0.05


@figure("Calibration", family="Answers", needs="probabilities before and after projection kept as artifacts", place=13)
def reliability_diagrams(folder: RunFolder) -> Iterator[Figure]:
    """Whether confidence can be believed, before and after the projection."""
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, "labels", "probabilities", "probabilities_before")
        if found:
            yield _reliability(setup, method, found)


def _reliability(setup: Setup, method: str, pairs: Found) -> Figure:
    labels = _together(pairs, "labels")
    before, after = (reliability(_together(pairs, name), labels) for name in ("probabilities_before", "probabilities"))
    with canvas(height=4.6, nrows=2, sharex=True, height_ratios=(3, 1)) as drawn:
        axis, below = drawn.axes
        axis.plot([0, 1], [0, 1], color="#555555", linestyle="--", linewidth=1, label="perfect")
        edges = np.linspace(0, 1, len(before.counts) + 1)
        for name, bins, colour, marker in (("before", before, BEFORE, "s"), ("after", after, AFTER, "o")):
            filled = bins.counts > 0
            label = f"{name} projection, ECE {100 * bins.error:.1f} %"
            axis.plot(bins.confidence[filled], bins.accuracy[filled], color=colour, marker=marker, label=label)
            below.stairs(bins.counts / bins.counts.sum() * 100, edges, color=colour, linewidth=1.5)
        axis.set_ylabel("share that is right")
        axis.set_ylim(0, 1.02)
        below.set_ylabel("% of answers")
        below.set_xlabel("confidence")
        drawn.legend(axis, columns=2)
    caption = (
        f"{setup.title}, {short_name(method)}. Reliability in {len(before.counts)} bins of equal width; ECE: expected "
        f"calibration error; n = {len(labels)} answers from {counted(len(pairs), 'run')} on all targets."
    )
    alt = (
        f"Reliability diagram: expected calibration error {100 * before.error:.1f} % before and "
        f"{100 * after.error:.1f} % after the projection."
    )
    return drawn.named(f"reliability-{setup.slug}", "Calibration", caption, alt)


@figure("Accuracy against coverage", family="Answers", needs="off-manifold scores kept as artifacts", place=14)
def coverage_curves(folder: RunFolder) -> Iterator[Figure]:
    """Accuracy on the answers that are given when the images farthest off the manifold are abstained from."""
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, "labels", "predicted", "off_manifold")
        for target, pairs in by_target(found).items():
            yield from _coverage(setup, method, target, pairs)


def _coverage(setup: Setup, method: str, target: str, pairs: Found) -> Iterator[Figure]:
    scores = _together(pairs, "off_manifold").astype(np.float64)
    usable = np.isfinite(scores)
    if usable.sum() < 2:
        return
    right = (_together(pairs, "labels") == _together(pairs, "predicted"))[usable]
    orders = {"off-manifold score": (scores[usable], AFTER, "-")}
    if all(artifact.has("probabilities") for _, artifact in pairs):
        confidence = _together(pairs, "probabilities").astype(np.float64).max(axis=1)[usable]
        orders["lack of confidence"] = (-confidence, BEFORE, "--")
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
    yield drawn.named(f"coverage-{target}-{setup.slug}", f"Abstaining on {target}", caption, alt)


def _together(pairs: Found, name: str) -> np.ndarray:
    return np.concatenate([artifact[name] for _, artifact in pairs])
