"""Pictures of accuracies and times, made from the records alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np

from homefold.report.drawing import COLOURS, Figure, canvas, counted, grouped_bars, legend_below, method_colour, to_svg
from homefold.report.grid import Grid, lay_out
from homefold.report.names import in_order, short_name, shown_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import of_kind
from homefold.report.statistics import Summary, summarise
from homefold.report.table_group import target_grid

__all__ = [
    "ablation_bars",
    "corruption_bars",
    "scarce_curves",
    "severity_curves",
    "single_source_bars",
    "stopping_curves",
    "time_bars",
]

_ABLATION = ("deep-all", "without-projection", "without-features", "gan", "vae")
_NAME_WIDTH = 40
_NO_SUMMARY = Summary(math.nan, None, None, None, 0)


def ablation_bars(folder: RunFolder) -> list[Figure]:
    """What each component is worth, on every target and on average."""
    figures = []
    for setup, runs in of_kind(folder, "targets", "samplers"):
        chosen = [run for run in runs if run.method in _ABLATION]
        methods = {run.method for run in chosen if run.ok}
        if len(methods) < 2 or not methods & {"without-projection", "without-features"}:
            continue
        figures.append(_bars_by_target(f"ablation-{setup.slug}", "Ablation", setup, chosen))
    return figures


def single_source_bars(folder: RunFolder) -> list[Figure]:
    """Each source alone against all others as targets."""
    figures = []
    for setup, runs in of_kind(folder, "single-source"):
        for source in dict.fromkeys(str(run.facts.get("source", "unknown")) for run in runs):
            chosen = [run for run in runs if str(run.facts.get("source", "unknown")) == source]
            if any(run.ok for run in chosen):
                name = f"single-source-{source}-{setup.slug}"
                figures.append(_bars_by_target(name, f"Trained on {source} alone", setup, chosen))
    return figures


def _bars_by_target(name: str, title: str, setup: Setup, runs: Sequence[Run]) -> Figure:
    grid = target_grid(runs)
    groups = [*grid.columns, "Avg."] if len(grid.columns) > 1 else list(grid.columns)
    methods = [row[0] for row in grid.rows]
    series, words = [], []
    for row in grid.rows:
        places = [grid.at(row, column) for column in grid.columns]
        places += [grid.averages(row)] if len(groups) > len(places) else []
        summaries = [summarise(list(place.values())) or _NO_SUMMARY for place in places]
        colour = method_colour(row[0], methods)
        series.append((short_name(row[0]), colour, [s.mean for s in summaries], [_spread(s) for s in summaries]))
        words.append(f"{short_name(row[0])} {_percent(summaries[-1].mean)}")
    with canvas() as (figure, axis):
        grouped_bars(axis, groups, series)
        axis.set_ylabel("accuracy, %")
        cut = _begin_above_zero(axis, [height for _, _, heights, _ in series for height in heights])
        legend_below(figure, axis)
        data = to_svg(figure)
    caption = (
        f"{setup.title}. Accuracy on each unseen target; bars: mean over seeds, whiskers: standard deviation; "
        f"n = {_runs(runs)}, seeds {', '.join(map(str, grid.seeds))}.{cut}"
    )
    return Figure(name, title, caption, f"Bars of accuracy; {groups[-1]}: {', '.join(words)}.", "svg", data)


def scarce_curves(folder: RunFolder) -> list[Figure]:
    """Accuracy, averaged over targets, against the share of each source that was trained on."""
    figures = []
    for setup, runs in of_kind(folder, "scarce"):
        grid = lay_out(
            runs,
            row=lambda run: (run.method,),
            column=lambda run: f"{_as_number(run.facts.get('fraction', 1)):g}",
            unit=lambda run: run.target,
            order_columns=lambda columns: sorted(columns, key=float),
        )
        places = [100 * float(column) if float(column) <= 1 else float(column) for column in grid.columns]
        targets = len({run.target for run in runs})
        figures += _curves(
            f"scarce-{setup.slug}",
            "Scarce data",
            grid,
            places,
            "share of each source, %",
            f"{setup.title}. Mean over {counted(targets, 'target')}; band: standard deviation over seeds; "
            f"n = {_runs(runs)}.",
        )
    return figures


def severity_curves(folder: RunFolder) -> list[Figure]:
    """The ablation under corruption: accuracy averaged over all types, by severity."""
    figures = []
    for setup, runs in of_kind(folder, "severity"):
        grid = lay_out(
            runs,
            row=lambda run: (run.method,),
            column=lambda run: f"{_as_number(run.facts.get('severity', 0)):g}",
            unit=lambda run: str(run.facts.get("corruption", run.target)),
            order_columns=lambda columns: sorted(columns, key=float),
        )
        types = len({run.facts.get("corruption", run.target) for run in runs})
        figures += _curves(
            f"severity-{setup.slug}",
            "Ablation by severity of corruption",
            grid,
            [float(column) for column in grid.columns],
            "severity",
            f"{setup.title}. Mean over {types} types of corruption; band: standard deviation over seeds; "
            f"n = {_runs(runs)}.",
        )
    return figures


def stopping_curves(folder: RunFolder) -> list[Figure]:
    """Accuracy against the deviation ε from the elbow n*, for each target."""
    figures = []
    for setup, runs in of_kind(folder, "stopping"):
        for method in in_order(run.method for run in runs if "epsilon" in run.facts):
            grid = lay_out(
                [run for run in runs if run.method == method and "epsilon" in run.facts],
                row=lambda run: (run.target,),
                column=lambda run: f"{_as_number(run.facts['epsilon']):g}",
                order_columns=lambda columns: sorted(columns, key=float),
            )
            figures += _curves(
                f"stopping-{method}-{setup.slug}",
                f"Stopping off the elbow: {short_name(method)}",
                grid,
                [float(column) for column in grid.columns],
                "deviation ε from n*",
                f"{setup.title}, {shown_name(method)}. ε = 0 stops at the elbow; band: standard deviation over seeds; "
                f"n = {_runs(runs)}.",
                of_methods=False,
            )
    return figures


def _curves(
    name: str,
    title: str,
    grid: Grid,
    places: list[float],
    label: str,
    caption: str,
    *,
    of_methods: bool = True,
) -> list[Figure]:
    """A line for each row of the grid; nothing when no row has a value."""
    if not any(grid.values.values()):
        return []
    names = [row[0] for row in grid.rows]
    ordered = in_order(names)
    words = []
    with canvas() as (figure, axis):
        for position, row in enumerate((method,) for method in ordered):
            summaries = [summarise(list(grid.at(row, column).values())) or _NO_SUMMARY for column in grid.columns]
            means = np.array([summary.mean for summary in summaries])
            spread = np.array([summary.std or 0 for summary in summaries])
            colour = method_colour(row[0], names) if of_methods else COLOURS[position % len(COLOURS)]
            axis.plot(places, means, marker="osD^vPX*"[position % 8], color=colour, label=short_name(row[0]))
            axis.fill_between(places, means - spread, means + spread, color=colour, alpha=0.15, linewidth=0)
            words.append(f"{short_name(row[0])} from {_percent(means[0])} to {_percent(means[-1])}")
        axis.set_xlabel(label)
        axis.set_ylabel("accuracy, %")
        axis.set_xticks(places)
        legend_below(figure, axis)
        data = to_svg(figure)
    return [Figure(name, title, caption, f"Lines of accuracy against {label}: {'; '.join(words)}.", "svg", data)]


def corruption_bars(folder: RunFolder) -> list[Figure]:
    """Accuracy for each type of corruption at the highest severity that was run."""
    figures = []
    for setup, runs in of_kind(folder, "severity"):
        highest = max(_as_number(run.facts.get("severity", 0)) for run in runs)
        worst = [run for run in runs if _as_number(run.facts.get("severity", 0)) == highest]
        grid = lay_out(
            worst,
            row=lambda run: (run.method,),
            column=lambda run: str(run.facts.get("corruption", run.target)),
            order_rows=lambda rows: [(method,) for method in in_order(row[0] for row in rows)],
            order_columns=sorted,
        )
        if not any(grid.values.values()):
            continue
        methods = [row[0] for row in grid.rows]
        thickness = 0.8 / len(methods)
        with canvas(height=0.9 + (0.16 * len(methods) + 0.12) * len(grid.columns)) as (figure, axis):
            axis.grid(axis="x")
            axis.grid(visible=False, axis="y")
            for position, row in enumerate(grid.rows):
                means = [(summarise(list(grid.at(row, c).values())) or _NO_SUMMARY).mean for c in grid.columns]
                places = [i - 0.4 + thickness * (position + 0.5) for i in range(len(grid.columns))]
                axis.barh(
                    places, means, thickness * 0.94, color=method_colour(row[0], methods), label=short_name(row[0])
                )
            axis.set_yticks(range(len(grid.columns)), [column.replace("_", " ") for column in grid.columns])
            axis.invert_yaxis()
            axis.set_xlabel("accuracy, %")
            legend_below(figure, axis)
            data = to_svg(figure)
        averages = {row[0]: summarise(list(grid.averages(row).values())) for row in grid.rows}
        words = ", ".join(f"{short_name(m)} {_percent(s.mean)}" for m, s in averages.items() if s)
        caption = (
            f"{setup.title}. Severity {highest:g}, {len(grid.columns)} types, mean over seeds; n = {_runs(worst)}."
        )
        alt = f"Bars of accuracy by type of corruption; means over types: {words or 'incomplete'}."
        name = f"corruption-{setup.slug}"
        figures.append(Figure(name, f"Types of corruption at severity {highest:g}", caption, alt, "svg", data))
    return figures


def time_bars(folder: RunFolder) -> list[Figure]:
    """Time per image at inference, with and without projection."""
    figures = []
    for setup, runs in of_kind(folder, "targets", "samplers"):
        timed = [run for run in runs if run.ok and run.seconds_per_image is not None]
        methods = in_order(run.method for run in timed)
        if len(methods) < 2:
            continue
        means = {m: 1000 * float(np.mean([run.seconds_per_image for run in timed if run.method == m])) for m in methods}
        # Settings make names longer than the picture is wide.
        names = [fill(short_name(m), _NAME_WIDTH) for m in methods]
        lines = max(name.count("\n") for name in names)
        with canvas(height=0.9 + (0.42 + 0.14 * lines) * len(methods)) as (figure, axis):
            axis.grid(axis="x")
            axis.grid(visible=False, axis="y")
            bars = axis.barh(
                range(len(methods)), list(means.values()), color=[method_colour(m, methods) for m in methods]
            )
            axis.bar_label(bars, [f"{value:.3g} ms" for value in means.values()], padding=4)
            axis.set_yticks(range(len(methods)), names)
            axis.invert_yaxis()
            axis.margins(x=0.18)
            axis.set_xlabel("inference, ms per image")
            data = to_svg(figure)
        places = ", ".join(sorted({run.hardware for run in timed if run.hardware})) or "hardware not recorded"
        words = ", ".join(f"{short_name(m)} {value:.3g} ms" for m, value in means.items())
        caption = f"{setup.title}. Mean over {len(timed)} runs on {places}."
        figures.append(Figure(f"time-{setup.slug}", "Time per image", caption, f"Bars of time: {words}.", "svg", data))
    return figures


def _begin_above_zero(axis: Any, heights: Sequence[float]) -> str:
    """Begin the axis above zero when all bars are high, mark it so, and return the sentence that says so."""
    usable = [height for height in heights if not math.isnan(height)]
    floor = 10 * math.floor((min(usable) - 12) / 10) if usable else 0
    if floor < 20:
        return ""
    axis.set_ylim(bottom=floor)
    axis.set_ylabel(f"accuracy, % (from {floor})")
    return f" The axis begins at {floor}, not at zero."


def _spread(summary: Summary) -> float:
    return math.nan if summary.std is None else summary.std


def _runs(runs: Sequence[Run]) -> str:
    done = sum(run.ok for run in runs)
    return f"{done} runs" if done == len(runs) else f"{done} runs ({len(runs) - done} failed)"


def _as_number(value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return 0.0


def _percent(value: float) -> str:
    return "no value" if math.isnan(value) else f"{value:.1f} %"
