"""Curves of accuracy against the share of the sources, the severity of corruption or ε, and of the loss by step."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence

import numpy as np

from homefold.report.artifacts import Artifact
from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import COLOURS, WRONG, canvas, counted_runs, method_colour, percent
from homefold.report.grid import RowKey, lay_out
from homefold.report.names import in_order, short_name, shown_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import number_of, of_kind, shown_by_target, whose
from homefold.report.statistics import NOTHING, summarise
from homefold.runtime.text import counted

__all__ = ["loss_curves", "scarce_curves", "severity_curves", "stopping_curves"]

_MOST_CURVES = 4
_BAND = "band: standard deviation over seeds"


@figure("Scarce data", family="Accuracy", needs="runs of the suite scarce", place=2)
def scarce_curves(folder: RunFolder) -> Iterator[Figure]:
    """Accuracy, averaged over targets, against the share of each source that was trained on."""
    for setup, runs in of_kind(folder, "scarce"):
        caption = f"{setup.title}. Mean over {counted(len({run.target for run in runs}), 'target')}; {_BAND}"
        names = (f"scarce-{setup.slug}", "Scarce data", "share of each source, %", caption)
        yield from _curves(*names, runs, "fraction", default=1, unit=lambda run: run.target, shares=True)


@figure("Ablation under corruption", family="Accuracy", needs="runs of the suite cifar10-c", place=5)
def severity_curves(folder: RunFolder) -> Iterator[Figure]:
    """The ablation under corruption: accuracy averaged over all types, by severity."""
    for setup, runs in of_kind(folder, "severity"):
        types = len({run.facts.get("corruption", run.target) for run in runs})
        caption = f"{setup.title}. Mean over {types} types of corruption; {_BAND}"
        names = (f"severity-{setup.slug}", "Ablation by severity of corruption", "severity", caption)
        yield from _curves(*names, runs, "severity", unit=lambda run: str(run.facts.get("corruption", run.target)))


@figure("Accuracy against the deviation from n*", family="Accuracy", needs="runs of the suite stopping", place=6)
def stopping_curves(folder: RunFolder) -> Iterator[Figure]:
    """Accuracy against the deviation ε from the elbow n*, for each target."""
    for setup, runs in of_kind(folder, "stopping"):
        for method in in_order(run.method for run in runs if "epsilon" in run.facts):
            chosen = [run for run in runs if run.method == method and "epsilon" in run.facts]
            caption = f"{setup.title}, {shown_name(method)}. ε = 0 stops at the elbow; {_BAND}"
            title = f"Stopping off the elbow: {short_name(method)}"
            names = (f"stopping-{method}-{setup.slug}", title, "deviation ε from n*", caption)
            yield from _curves(*names, chosen, "epsilon", row=lambda run: (run.target,))


def _curves(
    name: str,
    title: str,
    label: str,
    caption: str,
    runs: Sequence[Run],
    setting: str,
    *,
    default: float = 0,
    unit: Callable[[Run], Hashable] = lambda run: None,
    row: Callable[[Run], RowKey] | None = None,
    shares: bool = False,
) -> Iterator[Figure]:
    """A line for each method (or `row`) against a setting of the protocol; nothing when no run has a value."""
    grid = lay_out(
        runs,
        row=row or (lambda run: (run.method,)),
        column=lambda run: f"{number_of(run, setting, default):g}",
        unit=unit,
    )
    if not any(grid.values.values()):
        return
    places = [100 * float(column) if shares and float(column) <= 1 else float(column) for column in grid.columns]
    names = [row[0] for row in grid.rows]
    words = []
    with canvas() as drawn:
        for position, key in enumerate(in_order(names)):
            summaries = [summarise(grid.at((key,), column).values()) or NOTHING for column in grid.columns]
            means = np.array([summary.mean for summary in summaries])
            spread = np.array([summary.std or 0 for summary in summaries])
            colour = COLOURS[position % len(COLOURS)] if row else method_colour(key, names)
            drawn.axes.plot(places, means, marker="osD^vPX*"[position % 8], color=colour, label=short_name(key))
            drawn.axes.fill_between(places, means - spread, means + spread, color=colour, alpha=0.15, linewidth=0)
            words.append(f"{short_name(key)} from {percent(means[0])} to {percent(means[-1])}")
        drawn.axes.set_xlabel(label)
        drawn.axes.set_ylabel("accuracy, %")
        drawn.axes.set_xticks(places)
        drawn.legend()
    alt = f"Lines of accuracy against {label}: {'; '.join(words)}."
    yield drawn.named(name, title, f"{caption}; n = {counted_runs(runs)}.", alt)


@figure("Loss against step", family="Feature space", needs="loss curves kept as artifacts", place=11)
def loss_curves(folder: RunFolder) -> Iterator[Figure]:
    """How L_S falls with the steps for single samples, with the elbow marked."""
    for setup, method, target, pairs in shown_by_target(folder, "curve_loss", "curve_elbow"):
        yield _losses(setup, method, target, *pairs[0])


def _losses(setup: Setup, method: str, target: str, run: Run, artifact: Artifact) -> Figure:
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
        f"{setup.title}, target {target}, {short_name(method)}, seed {run.seed}. L_S = 1 − cos against the step "
        f"for n = {len(curves)} samples; dots mark the elbow n*."
    )
    alt = f"Falling curves of the loss; elbows at {', '.join(map(str, elbows))}."
    name, title = whose(method)
    return drawn.named(f"loss-{target}{name}-{setup.slug}", f"Loss against step on {target}{title}", caption, alt)
