"""Pictures of single answers: confusion, calibration before and after the projection, abstaining."""

from __future__ import annotations

import math

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.calibration import Reliability, coverage_curve, reliability
from homefold.report.drawing import AFTER, BEFORE, Figure, canvas, counted, legend_below, to_svg
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import by_target, full_runs, whole_sources

__all__ = ["confusion_matrices", "coverage_curves", "reliability_diagrams"]

_MOST_WRITTEN = 12
_MOST_NAMED = 30
_MOST_POINTS = 400
_LEAST_COVERAGE = 0.05

Found = list[tuple[Run, Artifact]]


def confusion_matrices(folder: RunFolder) -> list[Figure]:
    """What is taken for what on each target, all seeds together."""
    figures = []
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, "labels", "predicted")
        for target, pairs in by_target(found).items():
            figures.append(_confusion(setup, method, target, pairs))
    return figures


def _confusion(setup: Setup, method: str, target: str, pairs: Found) -> Figure:
    labels, predicted = (np.concatenate([a[name].astype(int) for _, a in pairs]) for name in ("labels", "predicted"))
    artifact = pairs[0][1]
    classes = max(len(artifact.arrays.get("class_names", ())), int(max(labels.max(), predicted.max())) + 1)
    counts = np.zeros((classes, classes))
    np.add.at(counts, (labels, predicted), 1)
    shares = 100 * counts / np.maximum(1, counts.sum(axis=1, keepdims=True))
    names = [artifact.class_name(label) for label in range(classes)]
    with canvas(height=4.9) as (figure, axis):
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
        data = to_svg(figure)
    accuracy = 100 * float((labels == predicted).mean())
    caption = (
        f"{setup.title}, {short_name(method)}. Rows: true class, in % of its images; n = {len(labels)} answers from "
        f"{counted(len(pairs), 'seed')}; accuracy {accuracy:.1f} %."
    )
    off = counts - np.diag(np.diag(counts))
    i, j = np.unravel_index(int(off.argmax()), off.shape)
    worst = f"; most frequent mistake: {names[i]} taken for {names[j]} ({off[i, j]:.0f} times)" if off.any() else ""
    alt = f"Confusion matrix of {classes} classes on {target}: {accuracy:.1f} % on the diagonal{worst}."
    return Figure(f"confusion-{target}-{setup.slug}", f"Confusion on {target}", caption, alt, "svg", data)


def reliability_diagrams(folder: RunFolder) -> list[Figure]:
    """Whether confidence can be believed, before and after the projection."""
    figures = []
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, "labels", "probabilities", "probabilities_before")
        if found:
            labels = np.concatenate([artifact["labels"] for _, artifact in found])
            before, after = (
                reliability(np.concatenate([artifact[name] for _, artifact in found]), labels)
                for name in ("probabilities_before", "probabilities")
            )
            figures.append(_reliability_figure(setup, method, before, after, len(labels), len(found)))
    return figures


def _reliability_figure(
    setup: Setup, method: str, before: Reliability, after: Reliability, answers: int, runs: int
) -> Figure:
    with canvas(height=4.6, nrows=2, sharex=True, height_ratios=(3, 1)) as (figure, (axis, below)):
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
        legend_below(figure, axis, columns=2)
        data = to_svg(figure)
    caption = (
        f"{setup.title}, {short_name(method)}. Reliability in {len(before.counts)} bins of equal width; ECE: expected "
        f"calibration error; n = {answers} answers from {counted(runs, 'run')} on all targets."
    )
    alt = (
        f"Reliability diagram: expected calibration error {100 * before.error:.1f} % before and "
        f"{100 * after.error:.1f} % after the projection."
    )
    return Figure(f"reliability-{setup.slug}", "Calibration", caption, alt, "svg", data)


def coverage_curves(folder: RunFolder) -> list[Figure]:
    """Accuracy on the answers that are given when the images farthest off the manifold are abstained from."""
    figures = []
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, "labels", "predicted", "off_manifold")
        for target, pairs in by_target(found).items():
            figure = _coverage(setup, method, target, pairs)
            figures += [figure] if figure else []
    return figures


def _coverage(setup: Setup, method: str, target: str, pairs: Found) -> Figure | None:
    def together(name: str) -> np.ndarray:
        return np.concatenate([artifact[name] for _, artifact in pairs])

    scores = together("off_manifold").astype(np.float64)
    usable = np.isfinite(scores)
    if usable.sum() < 2:
        return None
    right = (together("labels") == together("predicted"))[usable]
    orders = {"off-manifold score": (scores[usable], AFTER, "-")}
    if all(artifact.has("probabilities") for _, artifact in pairs):
        confidence = together("probabilities").astype(np.float64).max(axis=1)[usable]
        orders["lack of confidence"] = (-confidence, BEFORE, "--")
    accuracy, words = 100 * float(right.mean()), []
    with canvas(height=3.2) as (figure, axis):
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
        legend_below(figure, axis)
        data = to_svg(figure)
    caption = (
        f"{setup.title}, {short_name(method)}. Accuracy on the images answered when the others are abstained from; "
        f"n = {len(right)} answers from {counted(len(pairs), 'seed')}."
    )
    alt = f"Accuracy against coverage on {target}: {accuracy:.1f} % answering all; answering half, {', '.join(words)}."
    return Figure(f"coverage-{target}-{setup.slug}", f"Abstaining on {target}", caption, alt, "svg", data)
