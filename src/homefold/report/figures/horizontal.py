"""Horizontal bars: accuracy by type of corruption, and time per image."""

from __future__ import annotations

from collections.abc import Iterator
from textwrap import fill

import numpy as np

from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import canvas, counted_runs, method_colour, percent
from homefold.report.grid import lay_out
from homefold.report.names import in_order, short_name
from homefold.report.runs import RunFolder
from homefold.report.selecting import number_of, of_kind
from homefold.report.statistics import NOTHING, summarise

__all__ = ["corruption_bars", "time_bars"]

_NAME_WIDTH = 40


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
        thickness = 0.8 / len(methods)
        with canvas(height=0.9 + (0.16 * len(methods) + 0.12) * len(types)) as drawn:
            axis = drawn.axes
            for position, row in enumerate(grid.rows):
                means = [(summarise(grid.at(row, kind).values()) or NOTHING).mean for kind in types]
                places = [i - 0.4 + thickness * (position + 0.5) for i in range(len(types))]
                colour, label = method_colour(row[0], methods), short_name(row[0])
                axis.barh(places, means, thickness * 0.94, color=colour, label=label)
            drawn.lay_bars_down([kind.replace("_", " ") for kind in types], "accuracy, %")
            drawn.legend()
        averages = {row[0]: summarise(grid.averages(row).values()) for row in grid.rows}
        words = ", ".join(f"{short_name(m)} {percent(s.mean)}" for m, s in averages.items() if s)
        yield drawn.named(
            f"corruption-{setup.slug}",
            f"Types of corruption at severity {highest:g}",
            f"{setup.title}. Severity {highest:g}, {len(types)} types, mean over seeds; n = {counted_runs(worst)}.",
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
