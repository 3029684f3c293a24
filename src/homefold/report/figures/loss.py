"""How the loss falls as a sample is brought home."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import COLOURS, WRONG, canvas
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import full_runs, one_per_target, whole_sources

__all__ = ["loss_curves"]

_MOST_CURVES = 4


@figure("Loss against step", family="Feature space", needs="loss curves kept as artifacts", place=11)
def loss_curves(folder: RunFolder) -> Iterator[Figure]:
    """How L_S falls with the steps for single samples, with the elbow marked."""
    for setup, runs in whole_sources(folder):
        _, found = full_runs(folder, runs, "curve_loss", "curve_elbow")
        for target, (run, artifact) in one_per_target(found).items():
            yield _losses(setup, target, run, artifact)


def _losses(setup: Setup, target: str, run: Run, artifact: Artifact) -> Figure:
    curves = artifact["curve_loss"][:_MOST_CURVES].astype(np.float64)
    elbows = artifact["curve_elbow"][: len(curves)].astype(int).clip(0, curves.shape[1] - 1)
    with canvas() as drawn:
        for position, (curve, elbow) in enumerate(zip(curves, elbows, strict=True)):
            label = f"sample {position + 1}: n* = {elbow}"
            drawn.axes.plot(curve, color=COLOURS[position], linewidth=1.4, label=label)
            drawn.axes.plot(elbow, curve[elbow], "o", color=WRONG, markeredgecolor="black", markersize=7, zorder=3)
        drawn.axes.set_xlabel("step")
        drawn.axes.set_ylabel("L_S = 1 − cos")
        drawn.legend(columns=2)
    caption = (
        f"{setup.title}, target {target}, {short_name(run.method)}, seed {run.seed}. L_S = 1 − cos against the step "
        f"for n = {len(curves)} samples; dots mark the elbow n*."
    )
    alt = f"Falling curves of the loss; elbows at {', '.join(map(str, elbows))}."
    return drawn.named(f"loss-{target}-{setup.slug}", f"Loss against step on {target}", caption, alt)
