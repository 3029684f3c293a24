"""Bars of accuracy by target and by type of corruption, and of time per image."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from textwrap import fill
from typing import Any

import numpy as np

from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import (
    Bars,
    canvas,
    counted_runs,
    grouped_bars,
    grouped_bars_down,
    method_colour,
    percent,
)
from homefold.report.grid import lay_out
from homefold.report.names import in_order, short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import number_of, of_kind, setting_of
from homefold.report.statistics import summarise
from homefold.report.tables.group import target_grid

__all__ = ["ablation_bars", "corruption_bars", "single_source_bars", "time_bars"]

_NAME_WIDTH = 40
_ABLATION = ("deep-all", "without-projection", "without-features", "gan", "vae")


@figure(
    "Ablation",
    family="Accuracy",
    needs="Deep All, the full method and one without projection or without f",
    place=1,
)
def ablation_bars(folder: RunFolder) -> Iterator[Figure]:
    """What each component is worth, on every target and on average; beside it methods of a plugin."""
    for setup, runs in of_kind(folder, "targets", "samplers"):
        chosen = [run for run in runs if run.method in _ABLATION or run.facts.get("titles")]
        methods = {run.method for run in chosen if run.ok}
        if len(methods) > 1 and methods & {"without-projection", "without-features"}:
            yield _bars_by_target(f"ablation-{setup.slug}", "Ablation", setup, chosen)


@figure("Single source", family="Accuracy", needs="runs of the suite single-source", place=3)
def single_source_bars(folder: RunFolder) -> Iterator[Figure]:
    """Each source alone against all others as targets."""
    for setup, runs in of_kind(folder, "single-source"):
        for source in dict.fromkeys(setting_of(run, "source", "unknown") for run in runs):
            chosen = [run for run in runs if setting_of(run, "source", "unknown") == source]
            if any(run.ok for run in chosen):
                name = f"single-source-{source}-{setup.slug}"
                yield _bars_by_target(name, f"Trained on {source} alone", setup, chosen)


def _bars_by_target(name: str, title: str, setup: Setup, runs: Sequence[Run]) -> Figure:
    grid = target_grid(runs)
    groups = [*grid.columns, "Avg."] if len(grid.columns) > 1 else list(grid.columns)
    methods = [row[0] for row in grid.rows]
    series = []
    for row in grid.rows:
        places = [grid.at(row, column) for column in grid.columns]
        places += [grid.averages(row)] if len(groups) > len(places) else []
        values = [list(place.values()) for place in places]
        series.append(Bars(short_name(row[0]), method_colour(row[0], methods), values))
    words = [f"{bars.name} {percent(bars.means[-1])}" for bars in series]
    with canvas() as drawn:
        grouped_bars(drawn.axes, groups, series)
        drawn.axes.set_ylabel("accuracy, %")
        cut = _begin_above_zero(drawn.axes, [value for bars in series for values in bars.values for value in values])
        drawn.legend()
    caption = (
        f"{setup.title}. Accuracy on each unseen target; bars: mean over seeds, whiskers: standard deviation, "
        f"dots: seeds; n = {counted_runs(runs)}, seeds {', '.join(map(str, grid.seeds))}.{cut}"
    )
    return drawn.named(name, title, caption, f"Bars of accuracy; {groups[-1]}: {', '.join(words)}.")


def _begin_above_zero(axis: Any, heights: Sequence[float]) -> str:
    """Begin the axis above zero when all bars are high, mark it so, and return the sentence that says so."""
    usable = [height for height in heights if not math.isnan(height)]
    floor = 10 * math.floor((min(usable) - 12) / 10) if usable else 0
    if floor < 20:
        return ""
    axis.set_ylim(bottom=floor)
    axis.set_ylabel(f"accuracy, % (from {floor})")
    return f" The axis begins at {floor}, not at zero."


@figure("Types of corruption", family="Accuracy", needs="runs of the suite cifar10-c", place=4)
def corruption_bars(folder: RunFolder) -> Iterator[Figure]:
    """Accuracy for each type of corruption at the highest severity that was run."""
    for setup, runs in of_kind(folder, "severity"):
        highest = max(number_of(run, "severity") for run in runs)
        worst = [run for run in runs if number_of(run, "severity") == highest]
        grid = lay_out(worst, column=lambda run: str(run.facts.get("corruption", run.target)))
        if not any(grid.values.values()):
            continue
        methods, types = [row[0] for row in grid.rows], grid.columns
        series = [
            Bars(short_name(row[0]), method_colour(row[0], methods), [list(grid.at(row, t).values()) for t in types])
            for row in grid.rows
        ]
        with canvas(height=0.9 + (0.16 * len(methods) + 0.12) * len(types)) as drawn:
            grouped_bars_down(drawn.axes, len(types), series)
            drawn.lay_bars_down([kind.replace("_", " ") for kind in types], "accuracy, %")
            drawn.legend()
        averages = {row[0]: summarise(grid.averages(row).values()) for row in grid.rows}
        words = ", ".join(f"{short_name(m)} {percent(s.mean)}" for m, s in averages.items() if s)
        yield drawn.named(
            f"corruption-{setup.slug}",
            f"Types of corruption at severity {highest:g}",
            f"{setup.title}. Severity {highest:g}, {len(types)} types, bars: mean over seeds, dots: seeds; "
            f"n = {counted_runs(worst)}.",
            f"Bars of accuracy by type of corruption; means over types: {words or 'incomplete'}.",
        )


@figure("Time per image", family="Accuracy", needs="times of at least two methods", place=7)
def time_bars(folder: RunFolder) -> Iterator[Figure]:
    """Time per image at inference, with and without projection."""
    for setup, runs in of_kind(folder, "targets", "samplers"):
        timed = [run for run in runs if run.ok and run.seconds_per_image is not None]
        methods = in_order(run.method for run in timed)
        if len(methods) < 2:
            continue
        means = {m: 1000 * float(np.mean([run.seconds_per_image for run in timed if run.method == m])) for m in methods}
        # Settings make names longer than the picture is wide.
        names = [fill(short_name(m), _NAME_WIDTH) for m in methods]
        lines = max(name.count("\n") for name in names)
        with canvas(height=0.9 + (0.42 + 0.14 * lines) * len(methods)) as drawn:
            colours = [method_colour(m, methods) for m in methods]
            bars = drawn.axes.barh(range(len(methods)), list(means.values()), color=colours)
            drawn.axes.bar_label(bars, [f"{value:.3g} ms" for value in means.values()], padding=4)
            drawn.lay_bars_down(names, "inference, ms per image")
            drawn.axes.margins(x=0.18)
        places = ", ".join(sorted({run.hardware for run in timed if run.hardware})) or "hardware not recorded"
        words = ", ".join(f"{short_name(m)} {value:.3g} ms" for m, value in means.items())
        caption = f"{setup.title}. Mean over {len(timed)} runs on {places}."
        yield drawn.named(f"time-{setup.slug}", "Time per image", caption, f"Bars of time: {words}.")
