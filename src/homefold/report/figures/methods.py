"""Every method on one axis, the best at the top, beside what the paper printed for it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import fill

from homefold.report.figures import Figure, figure
from homefold.report.figures.drawing import DOTS, canvas, counted_runs, method_colour, percent, seed_dots
from homefold.report.names import short_name
from homefold.report.runs import Run, RunFolder, Setup
from homefold.report.selecting import of_kind, once
from homefold.report.statistics import Summary, summarise
from homefold.report.tables.group import TableGroup, target_grid

__all__ = ["method_ranks"]

_NAME_WIDTH = 40


@figure("All methods", family="Accuracy", needs="two methods with all their targets", place=0)
def method_ranks(folder: RunFolder) -> Iterator[Figure]:
    """The mean over targets of every method that was run, methods of plugins among them."""
    for setup, runs in of_kind(folder, "targets", "samplers"):
        grid = target_grid(once(runs))
        values = {row[0]: list(grid.averages(row).values()) for row in grid.rows}
        found = {method: summary for method, of_seeds in values.items() if (summary := summarise(of_seeds))}
        order = sorted(found, key=lambda method: -found[method].mean)
        if len(order) > 1:
            yield _ranks(setup, runs, {method: (found[method], values[method]) for method in order}, grid.columns)


def _ranks(
    setup: Setup, runs: Sequence[Run], found: dict[str, tuple[Summary, list[float]]], targets: Sequence[str]
) -> Figure:
    printed = _printed(setup, runs, list(found), targets)
    names = [fill(short_name(method), _NAME_WIDTH) for method in found]
    lines = sum(name.count("\n") for name in names)
    with canvas(height=1.2 + 0.34 * len(names) + 0.14 * lines) as drawn:
        axis = drawn.axes
        for place, (method, (summary, values)) in enumerate(found.items()):
            colour = method_colour(method, list(found))
            axis.errorbar(summary.mean, place, xerr=summary.std, color=colour, marker="D", markersize=6, capsize=3)
            axis.plot(*reversed(seed_dots(place, values, 0)), **DOTS)
        if printed:
            places = [list(found).index(method) for method in printed]
            look = {"facecolors": "none", "edgecolors": "#222222", "marker": "^", "label": "the paper’s figure"}
            axis.scatter(list(printed.values()), places, **look)
            drawn.legend()
        drawn.lay_bars_down(names, "accuracy, %, mean over targets" if len(targets) > 1 else "accuracy, %")
    caption = (
        f"{setup.title}. Mean over {len(targets)} targets for each seed; diamonds: mean over seeds, whiskers: standard "
        f"deviation, dots: seeds{'; triangles: the paper’s figures' if printed else ''}; n = {counted_runs(runs)}."
    )
    words = ", ".join(f"{short_name(method)} {percent(summary.mean)}" for method, (summary, _) in found.items())
    return drawn.named(f"methods-{setup.slug}", "All methods", caption, f"Means over targets, the best first: {words}.")


def _printed(setup: Setup, runs: Sequence[Run], methods: list[str], targets: Sequence[str]) -> dict[str, float]:
    """The paper's mean over the same targets, of each method that it has."""
    table = TableGroup(runs[0].suite, "targets", setup, tuple(runs)).published()
    if table is None:
        return {}
    found = {method: [table.find(method, "", target) for target in targets] for method in methods}
    return {
        method: sum(figure.mean for figure in figures if figure) / len(figures)
        for method, figures in found.items()
        if all(figures)
    }
