"""Pictures of images: a few of each domain, and what the projection corrected and spoiled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import RIGHT, WRONG, canvas
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import kept, one_per_target, shown_by_target, whole_sources, whose

__all__ = ["corrected_gallery", "example_images", "spoiled_gallery"]

_EXAMPLES = 8
_GALLERY = 6
_GALLERY_ARRAYS = (
    *("labels", "predicted", "probabilities_before", "thumb_target", "thumb_index"),
    *("thumb_source_before", "thumb_source_after", "thumb_labels_before", "thumb_labels_after"),
)


@figure("Examples of each domain", family="Images", needs="thumbnails kept as artifacts", place=15)
def example_images(folder: RunFolder) -> Iterator[Figure]:
    """A few images of each domain that was a target."""
    shown: set[str] = set()
    for setup, runs in whole_sources(folder):
        found = one_per_target(list(kept(folder, runs, "thumb_target")))
        if found and setup.dataset not in shown:
            shown.add(setup.dataset)
            yield _examples(setup, found)


def _examples(setup: Setup, found: dict[str, tuple[Run, Artifact]]) -> Figure:
    columns = min(_EXAMPLES, max(len(artifact["thumb_target"]) for _, artifact in found.values()))
    size = {"nrows": len(found), "ncols": columns, "squeeze": False}
    with canvas(7.2, 0.95 * len(found) + 0.1, format="png", **size) as drawn:
        for axis in drawn.axes.flat:
            axis.axis("off")
        for row, (target, (_, artifact)) in zip(drawn.axes, found.items(), strict=True):
            for axis, index in zip(row, _one_of_each_class(artifact, columns), strict=False):
                _show(axis, artifact["thumb_target"][index])
            row[0].set_ylabel(target.replace("_", " "), rotation=0, ha="right", va="center", fontsize=9)
    count = sum(min(columns, len(artifact["thumb_target"])) for _, artifact in found.values())
    caption = f"{setup.dataset}: images of {len(found)} domains, one row each; n = {count}."
    alt = f"Rows of example images of the domains {', '.join(found)}."
    return drawn.named(f"examples-{setup.slug}", "Examples of each domain", caption, alt, wide=True)


def _one_of_each_class(artifact: Artifact, count: int) -> list[int]:
    """Indices of thumbnails, going through the classes in turn."""
    total = len(artifact["thumb_target"])
    if not artifact.has("labels", "thumb_index"):
        return list(range(min(count, total)))
    labels = artifact["labels"][artifact["thumb_index"].astype(int)][:total]
    turn = [int((labels[:i] == label).sum()) for i, label in enumerate(labels)]
    return sorted(range(len(labels)), key=lambda i: (turn[i], labels[i]))[:count]


_NEEDS = "thumbnails of {} images kept as artifacts"


@figure("Corrected by the projection", family="Images", needs=_NEEDS.format("corrected"), place=16)
def corrected_gallery(folder: RunFolder) -> Iterator[Figure]:
    """Target images that only the projected answer gets right."""
    yield from _galleries(folder, "corrected")


@figure("Spoiled by the projection", family="Images", needs=_NEEDS.format("spoiled"), place=17)
def spoiled_gallery(folder: RunFolder) -> Iterator[Figure]:
    """Target images that only the unprojected answer gets right."""
    yield from _galleries(folder, "spoiled")


def _galleries(folder: RunFolder, word: str) -> Iterator[Figure]:
    for setup, method, target, pairs in shown_by_target(folder, *_GALLERY_ARRAYS):
        yield from _gallery(setup, method, target, *pairs[0], word)


def _gallery(setup: Setup, method: str, target: str, run: Run, artifact: Artifact, word: str) -> Iterator[Figure]:
    labels, after = artifact["labels"].astype(int), artifact["predicted"].astype(int)
    before = artifact["probabilities_before"].argmax(axis=1)
    gained, lost = (before != labels) & (after == labels), (before == labels) & (after != labels)
    wanted = gained if word == "corrected" else lost
    places = [k for k, index in enumerate(artifact["thumb_index"].astype(int)) if wanted[index]][:_GALLERY]
    if not places:
        return
    size = {"nrows": len(places), "ncols": 3, "squeeze": False}
    with canvas(3.9, 1.12 * len(places) + 0.3, format="png", **size) as drawn:
        for row, k in zip(drawn.axes, places, strict=True):
            _gallery_row(row, artifact, k, labels, before, after)
        for axis, when in zip(drawn.axes[0, 1:], ("before", "after"), strict=True):
            axis.set_title(f"nearest {when}\n{axis.get_title()}", fontsize=8)
    caption = (
        f"{setup.title}, {short_name(method)}, target {target}, seed {run.seed}: {int(wanted.sum())} of n = "
        f"{len(labels)} images {word} ({int(gained.sum())} corrected and {int(lost.sum())} spoiled in all), "
        f"{len(places)} shown. Left: the image, its true class, and the answer before → after; then its nearest source "
        "image before and after the projection, framed blue where its class is the true one, orange where not."
    )
    alt = f"{len(places)} {target} images that the projection {word}, each beside its nearest source images."
    name, title = whose(method)
    yield drawn.named(f"{word}-{target}{name}-{setup.slug}", f"{word.capitalize()} on {target}{title}", caption, alt)


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
