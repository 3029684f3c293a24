"""Pictures of images: a few of each domain, and what the projection corrected and spoiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.drawing import RIGHT, WRONG, Figure, canvas, to_png
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import by_target, full_runs, kept, one_per_target, whole_sources

__all__ = ["corrected_gallery", "example_images", "spoiled_gallery"]

_EXAMPLES = 8
_GALLERY = 6
_GALLERY_ARRAYS = ("labels", "predicted", "probabilities_before", "thumb_target", "thumb_index")
_NEAREST_ARRAYS = ("thumb_source_before", "thumb_source_after", "thumb_labels_before", "thumb_labels_after")


def example_images(folder: RunFolder) -> list[Figure]:
    """A few images of each domain that was a target."""
    figures = []
    shown: set[str] = set()
    for setup, runs in whole_sources(folder):
        found = one_per_target(list(kept(folder, runs, "thumb_target")))
        if not found or setup.dataset in shown:
            continue
        shown.add(setup.dataset)
        figures.append(_examples(setup, found))
    return figures


def _examples(setup: Setup, found: dict[str, tuple[Run, Artifact]]) -> Figure:
    columns = min(_EXAMPLES, max(len(artifact["thumb_target"]) for _, artifact in found.values()))
    with canvas(7.2, 0.95 * len(found) + 0.1, nrows=len(found), ncols=columns, squeeze=False) as (figure, axes):
        for axis in axes.flat:
            axis.axis("off")
        for row, (target, (_, artifact)) in zip(axes, found.items(), strict=True):
            chosen = _one_of_each_class(artifact, columns)
            for axis, index in zip(row, chosen, strict=False):
                _show(axis, artifact["thumb_target"][index])
            _name_row(row[0], target)
        data = to_png(figure)
    count = sum(min(columns, len(artifact["thumb_target"])) for _, artifact in found.values())
    caption = f"{setup.dataset}: images of {len(found)} domains, one row each; n = {count}."
    alt = f"Rows of example images of the domains {', '.join(found)}."
    return Figure(f"examples-{setup.slug}", "Examples of each domain", caption, alt, "png", data, wide=True)


def _one_of_each_class(artifact: Artifact, count: int) -> list[int]:
    """Indices of thumbnails, going through the classes in turn."""
    total = len(artifact["thumb_target"])
    if not artifact.has("labels", "thumb_index"):
        return list(range(min(count, total)))
    labels = artifact["labels"][artifact["thumb_index"].astype(int)][:total]
    turn = [int((labels[:i] == label).sum()) for i, label in enumerate(labels)]
    return sorted(range(len(labels)), key=lambda i: (turn[i], labels[i]))[:count]


def corrected_gallery(folder: RunFolder) -> list[Figure]:
    """Target images that only the projected answer gets right."""
    return _galleries(folder, corrected=True)


def spoiled_gallery(folder: RunFolder) -> list[Figure]:
    """Target images that only the unprojected answer gets right."""
    return _galleries(folder, corrected=False)


def _galleries(folder: RunFolder, *, corrected: bool) -> list[Figure]:
    figures = []
    for setup, runs in whole_sources(folder):
        method, found = full_runs(folder, runs, *_GALLERY_ARRAYS, *_NEAREST_ARRAYS)
        for target, pairs in by_target(found).items():
            figure = _gallery(setup, method, target, pairs, corrected=corrected)
            figures += [figure] if figure else []
    return figures


def _gallery(
    setup: Setup, method: str, target: str, pairs: list[tuple[Run, Artifact]], *, corrected: bool
) -> Figure | None:
    run, artifact = pairs[0]
    labels, after = artifact["labels"].astype(int), artifact["predicted"].astype(int)
    before = artifact["probabilities_before"].argmax(axis=1)
    gained, lost = (before != labels) & (after == labels), (before == labels) & (after != labels)
    wanted = gained if corrected else lost
    places = [k for k, index in enumerate(artifact["thumb_index"].astype(int)) if wanted[index]][:_GALLERY]
    if not places:
        return None
    with canvas(3.9, 1.12 * len(places) + 0.3, nrows=len(places), ncols=3, squeeze=False) as (figure, axes):
        for row, k in zip(axes, places, strict=True):
            _gallery_row(row, artifact, k, labels, before, after)
        for axis, when in zip(axes[0, 1:], ("before", "after"), strict=True):
            axis.set_title(f"nearest {when}\n{axis.get_title()}", fontsize=8)
        data = to_png(figure)
    word = "corrected" if corrected else "spoiled"
    caption = (
        f"{setup.title}, {short_name(method)}, target {target}, seed {run.seed}: {int(wanted.sum())} of n = "
        f"{len(labels)} images {word} ({int(gained.sum())} corrected and {int(lost.sum())} spoiled in all), "
        f"{len(places)} shown. Left: the image, its true class, and the answer before → after; then its nearest source "
        "image before and after the projection, framed blue where its class is the true one, orange where not."
    )
    alt = f"{len(places)} {target} images that the projection {word}, each beside its nearest source images."
    name = f"{word}-{target}-{setup.slug}"
    return Figure(name, f"{word.capitalize()} on {target}", caption, alt, "png", data)


def _gallery_row(
    row: Any, artifact: Artifact, k: int, labels: np.ndarray, before: np.ndarray, after: np.ndarray
) -> None:
    index = int(artifact["thumb_index"][k])
    truth = int(labels[index])
    _show(row[0], artifact["thumb_target"][k])
    answers = f"{artifact.class_name(int(before[index]))} → {artifact.class_name(int(after[index]))}"
    row[0].set_title(f"{artifact.class_name(truth)}\n{answers}", fontsize=8)
    for axis, when in zip(row[1:], ("before", "after"), strict=True):
        label = int(artifact[f"thumb_labels_{when}"][k])
        colour = RIGHT if label == truth else WRONG
        _show(axis, artifact[f"thumb_source_{when}"][k], frame=colour)
        axis.set_title(artifact.class_name(label), fontsize=8, color=colour)


def _show(axis: Any, image: np.ndarray, frame: str = "#BBBBBB") -> None:
    axis.axis("on")
    axis.grid(visible=False)
    axis.imshow(image, interpolation="nearest" if image.shape[0] < 64 else "antialiased")
    axis.set_xticks([])
    axis.set_yticks([])
    axis.spines[:].set_visible(True)
    axis.spines[:].set_color(frame)
    axis.spines[:].set_linewidth(1 if frame == "#BBBBBB" else 2.5)


def _name_row(axis: Any, name: str) -> None:
    axis.set_ylabel(name.replace("_", " "), rotation=0, ha="right", va="center", fontsize=9)
