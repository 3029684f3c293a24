"""Bars of accuracy by target: the ablation, and each source alone."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import canvas, counted_runs, grouped_bars, method_colour, percent
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import of_kind, setting_of
from homefold.report.statistics import NOTHING, summarise
from homefold.report.tables.group import target_grid

__all__ = ["ablation_bars", "single_source_bars"]

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
    series, words = [], []
    for row in grid.rows:
        places = [grid.at(row, column) for column in grid.columns]
        places += [grid.averages(row)] if len(groups) > len(places) else []
        summaries = [summarise(place.values()) or NOTHING for place in places]
        spreads = [math.nan if summary.std is None else summary.std for summary in summaries]
        means = [summary.mean for summary in summaries]
        series.append((short_name(row[0]), method_colour(row[0], methods), means, spreads))
        words.append(f"{short_name(row[0])} {percent(means[-1])}")
    with canvas() as drawn:
        grouped_bars(drawn.axes, groups, series)
        drawn.axes.set_ylabel("accuracy, %")
        cut = _begin_above_zero(drawn.axes, [height for _, _, heights, _ in series for height in heights])
        drawn.legend()
    caption = (
        f"{setup.title}. Accuracy on each unseen target; bars: mean over seeds, whiskers: standard deviation; "
        f"n = {counted_runs(runs)}, seeds {', '.join(map(str, grid.seeds))}.{cut}"
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
