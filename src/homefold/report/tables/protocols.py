"""Tables of the protocols: what stands in rows and columns, and how each is told."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from homefold.config.migration import current_settings
from homefold.report.grid import Grid, RowKey, lay_out, numeric
from homefold.report.names import short_name, shown_name
from homefold.report.runs import Run
from homefold.report.selecting import setting_of
from homefold.report.statistics import summarise
from homefold.report.tables.group import TableGroup, make_table, target_grid
from homefold.report.tables.published import PublishedFigure, place_of, plain_target, published_mean_stops
from homefold.report.tables.rows import TableRows, make_rows
from homefold.report.tables.table import MINUS, Cell, Table

__all__ = ["SHAPES"]


def _target_tables(group: TableGroup) -> list[Table]:
    """Methods against targets: the main tables, the samplers and the ablation."""
    published = group.published()
    rows = make_rows(target_grid(group.runs, published), published, label=lambda row: shown_name(row[0]))
    return [make_table(group, rows, published)]


def _few_shot_tables(group: TableGroup) -> list[Table]:
    """Methods and labelled target samples a class against routes source->target."""
    published = group.published()
    places = place_of(published)
    grid = lay_out(group.runs, row=_with("shots", "0"), column=_route, first=places)
    if published and not set(map(plain_target, grid.columns)) & set(published.targets):
        published = None
    rows = make_rows(grid, published, label=lambda row: f"{shown_name(row[0])}, {row[1]} per class")
    stub = "Method, labelled target samples"
    return [make_table(group, rows, published, about="few-shot adaptation", stub=stub)]


def _route(run: Run) -> str:
    arrow = re.search("->|→", run.target)
    return run.target if arrow or "source" not in run.facts else f"{run.facts['source']}->{run.target}"


def _single_source_tables(group: TableGroup) -> list[Table]:
    """One table a source: methods against the other domains."""
    tables = []
    for source in dict.fromkeys(setting_of(run, "source", "unknown") for run in group.runs):
        part = replace(group, runs=tuple(run for run in group.runs if setting_of(run, "source", "unknown") == source))
        published = part.published(source=plain_target(source))
        grid = target_grid(part.runs, published)
        # One training answers for all these targets.
        rows = make_rows(grid, published, label=lambda row: shown_name(row[0]), together=True)
        tables.append(make_table(part, rows, published, about=f"trained on {source} alone", name=source))
    return tables


def _scarce_tables(group: TableGroup) -> list[Table]:
    """Methods and shares of the sources against targets."""
    grid = lay_out(group.runs, row=_with("fraction", "1"), column=lambda run: run.target)
    rows = make_rows(grid, None, label=lambda row: f"{shown_name(row[0])}, {_share(row[1])} of each source")
    return [make_table(group, rows, None, about="scarce data")]


def _share(text: str) -> str:
    fraction = numeric(text)[0]
    return f"{100 * fraction if fraction <= 1 else fraction:g} %"


def _severity_tables(group: TableGroup) -> list[Table]:
    """Methods against severities of corruption, each a mean over its types."""

    def corruption(run: Run) -> str:
        return setting_of(run, "corruption", run.target)

    published = group.published()
    grid = lay_out(group.runs, column=lambda run: setting_of(run, "severity", "unknown"), unit=corruption)
    rows = make_rows(grid, published, label=lambda row: shown_name(row[0]), average=False)
    kinds = len({corruption(run) for run in group.runs if setting_of(run, "severity", "") != "0"})
    columns = tuple({"0": "Clean", "unknown": "No level"}.get(c, f"Level {c}") for c in rows.columns)
    caption = f"Each figure is a mean over {kinds} types of corruption."
    rows = replace(rows, columns=columns)
    return [make_table(group, rows, published, about="by severity of corruption", caption=caption)]


def _stopping_tables(group: TableGroup) -> list[Table]:
    """Methods against the deviation ε from n*."""
    grid = lay_out(group.runs, column=lambda run: setting_of(run, "epsilon", "0"), unit=lambda run: run.target)
    rows = make_rows(grid, None, label=lambda row: shown_name(row[0]), average=False)
    rows = replace(rows, columns=tuple(f"ε = {column.replace('-', MINUS)}" for column in rows.columns))
    targets = list(dict.fromkeys(run.target for run in group.runs))
    over = f"{len(targets)} targets ({', '.join(targets)})" if len(targets) > 1 else f"the target {targets[0]}"
    caption = f"Columns: deviation ε from n*. Each figure is a mean over {over}."
    return [make_table(group, rows, None, about="stopping off the elbow", caption=caption)]


def _beta_tables(group: TableGroup) -> list[Table]:
    """Iteration rates against mean n*, the most steps, and targets."""
    published, key = group.published(), _with("beta", "unknown")
    several = len({run.method for run in group.runs}) > 1
    grid = lay_out(
        group.runs,
        row=key,
        column=lambda run: run.target,
        order_rows=lambda rows: sorted(rows, key=lambda row: (row[0], -numeric(row[1])[0])),
        first=place_of(published),
    )
    stops = lay_out(group.runs, row=key, column=lambda run: "", unit=lambda run: run.target, value=_mean_stop)
    rows = make_rows(
        grid,
        published,
        label=lambda row: f"{row[1]}, {short_name(row[0])}" if several else row[1],
        setting=lambda row: row[1],
        best_within=lambda row: "",
        others=False,
    )
    printed = published_mean_stops() if published else {}
    extra = [
        (_stop_cell(stops, row, printed.get(row[1])), _most_steps([run for run in group.runs if key(run) == row]))
        for row in grid.rows
    ]
    widened = tuple(replace(row, cells=(*cells, *row.cells)) for row, cells in zip(rows.rows, extra, strict=True))
    rows = TableRows(("Mean n*", "M", *rows.columns), widened, rows.done, rows.expected)
    caption = "Rows: iteration rate β. Mean n*: steps until the stop, over target images; M: steps at most."
    return [make_table(group, rows, published, about="iteration rate β", stub="β", caption=caption)]


def _mean_stop(run: Run) -> float | None:
    value = run.facts.get("mean_iterations")
    return float(value) if run.ok and isinstance(value, int | float) else None


def _stop_cell(stops: Grid, row: RowKey, printed: float | None) -> Cell:
    values, failed = stops.at(row, ""), len(stops.failed_at(row, ""))
    published = None if printed is None else PublishedFigure(printed)
    if not values and not failed:
        return Cell(text="not recorded")
    return Cell(summarise(values.values()), len(stops.seeds), failed, published, decimals=0)


def _most_steps(runs: list[Run]) -> Cell:
    places = [run.facts for run in runs] + [current_settings(run.config).get("search") or {} for run in runs]
    found = {str(place["steps"]) for place in places if isinstance(place, dict) and "steps" in place}
    return Cell(text=", ".join(sorted(found)) or "not recorded")


def _with(setting: str, default: str) -> Callable[[Run], RowKey]:
    """Rows of a method under each value of a setting."""
    return lambda run: (run.method, setting_of(run, setting, default))


SHAPES: dict[str, Callable[[TableGroup], list[Table]]] = {
    "targets": _target_tables,
    "samplers": _target_tables,
    "few-shot": _few_shot_tables,
    "single-source": _single_source_tables,
    "scarce": _scarce_tables,
    "severity": _severity_tables,
    "beta": _beta_tables,
    "stopping": _stopping_tables,
}
"""By kind of suite: the tables of a group of its runs."""
