"""What is taken for what."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import canvas, counted
from homefold.report.names import short_name
from homefold.report.runs import RunFolder, Setup
from homefold.report.selecting import Found, by_target, full_runs, whole_sources

__all__ = ["confusion_matrices"]

_MOST_WRITTEN = 12
_MOST_NAMED = 30


@figure("Confusion matrices", family="Answers", needs="answers of the full method kept as artifacts", place=12)
def confusion_matrices(folder: RunFolder) -> Iterator[Figure]:
    """What is taken for what on each target, all seeds together."""
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, "labels", "predicted")
        for target, pairs in by_target(found).items():
            yield _confusion(setup, method, target, pairs)


def _confusion(setup: Setup, method: str, target: str, pairs: Found) -> Figure:
    labels, predicted = (np.concatenate([a[name].astype(int) for _, a in pairs]) for name in ("labels", "predicted"))
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
    return drawn.named(f"confusion-{target}-{setup.slug}", f"Confusion on {target}", caption, alt)
