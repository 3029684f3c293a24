"""How the loss fell, epoch by epoch, on the images that were trained on and on those held out."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import COLOURS, canvas
from homefold.report.names import in_order, short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import kept, one_per_target, whole_sources

__all__ = ["training_curves"]

_LOSSES = ("epoch_loss", "epoch_held_out_loss")
_COLUMNS = 2
Trained = dict[str, tuple[Run, Artifact]]


@figure("Loss by epoch", family="Training", needs="losses of trainings kept as artifacts", place=7.5)
def training_curves(folder: RunFolder) -> Iterator[Figure]:
    """The losses of each training of f; methods that stand on the same one share a panel."""
    for setup, runs in whole_sources(folder):
        panels: dict[bytes, tuple[list[str], Trained]] = {}
        for method in in_order(run.method for run in runs):
            found = one_per_target(list(kept(folder, [run for run in runs if run.method == method], *_LOSSES)))
            if found:
                same = b"".join(artifact["epoch_loss"].tobytes() for _, artifact in found.values())
                panels.setdefault(same, ([], found))[0].append(short_name(method))
        if panels:
            yield _panels(setup, list(panels.values()))


def _panels(setup: Setup, panels: list[tuple[list[str], Trained]]) -> Figure:
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    targets = sorted({target for _, found in panels for target in found})
    words = []
    width, height = (6.4 if columns > 1 else 5.2), 0.6 + 2.2 * rows
    with canvas(width, height, nrows=rows, ncols=columns, squeeze=False) as drawn:
        for axis in drawn.axes.flat[len(panels) :]:
            axis.axis("off")
        for axis, (methods, found) in zip(drawn.axes.flat, panels, strict=False):
            for target, (_, artifact) in found.items():
                epochs = np.arange(1, len(artifact["epoch_loss"]) + 1)
                colour = COLOURS[targets.index(target) % len(COLOURS)]
                axis.plot(epochs, artifact["epoch_loss"], color=colour, linewidth=1.4, label=target)
                axis.plot(epochs, artifact["epoch_held_out_loss"], "--", color=colour, linewidth=1.1)
            axis.set_title("\n".join(_lines(methods)), fontsize=9)
            axis.set_xlabel("epoch")
            last = [float(artifact["epoch_loss"][-1]) for _, artifact in found.values()]
            words.append(f"{', '.join(methods)}: {np.mean(last):.3g} in the last epoch")
        for axis in drawn.axes[:, 0]:
            axis.set_ylabel("loss")
        drawn.legend(max(drawn.axes.flat, key=lambda axis: len(axis.get_legend_handles_labels()[1])))
    caption = (
        f"{setup.title}. Mean loss of each epoch by the target that was left out; dashed: on held-out source images. "
        f"Losses of different methods do not compare. n = {sum(len(found) for _, found in panels)} trainings, lowest "
        "seed of each."
    )
    alt = f"Losses by epoch. {'; '.join(words)}."
    return drawn.named(f"training-{setup.slug}", "Loss by epoch", caption, alt)


def _lines(methods: list[str], longest: int = 34) -> list[str]:
    """Names joined by commas, broken where a panel ends."""
    lines: list[str] = []
    for name in methods:
        fits = lines and len(lines[-1]) + len(name) + 2 <= longest
        lines = [*lines[:-1], f"{lines[-1]}, {name}"] if fits else [*lines, name]
    return lines
