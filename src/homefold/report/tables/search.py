"""Tables of the search: the iteration rate β, and stopping off the elbow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from homefold.report.grid import Grid, RowKey, lay_out
from homefold.report.names import short_name, shown_name
from homefold.report.runs import Run
from homefold.report.selecting import setting_of
from homefold.report.statistics import summarise
from homefold.report.tables.captions import counted_names, make_table, title_of
from homefold.report.tables.group import TableGroup, numeric, order_rows, order_targets
from homefold.report.tables.published import PublishedFigure, published_mean_stops
from homefold.report.tables.rows import TableRows, make_rows
from homefold.report.tables.table import MINUS, Cell, Table

__all__ = ["beta_tables", "stopping_tables"]


def stopping_tables(group: TableGroup) -> list[Table]:
    """Methods against the deviation ε from n*."""
    grid = lay_out(
        group.runs,
        row=lambda run: (run.method,),
        column=lambda run: setting_of(run, "epsilon", "0"),
        unit=lambda run: run.target,
        order_rows=order_rows,
        order_columns=lambda columns: sorted(columns, key=numeric),
    )
    rows = make_rows(grid, None, label=lambda row: shown_name(row[0]), average=False)
    rows = replace(rows, columns=tuple(f"ε = {column.replace('-', MINUS)}" for column in rows.columns))
    caption = f"Columns: deviation ε from n*. Each figure is a mean over {counted_names(group, 'target')}."
    return [make_table(group, title_of(group, "stopping off the elbow"), "Method", rows, None, caption=caption)]


def beta_tables(group: TableGroup) -> list[Table]:
    """Iteration rates against mean n*, the most steps, and targets."""
    published = group.published()
    several = len(group.methods) > 1

    def key(run: Run) -> RowKey:
        return run.method, setting_of(run, "beta", "unknown")

    grid = lay_out(
        group.runs,
        row=key,
        column=lambda run: run.target,
        order_rows=lambda rows: sorted(rows, key=lambda row: (row[0], -numeric(row[1])[0])),
        order_columns=lambda columns: order_targets(columns, published),
    )
    stops = lay_out(group.runs, row=key, column=lambda run: "", unit=lambda run: run.target, value=_mean_stop)
    rows = make_rows(
        grid,
        published,
        label=lambda row: f"{row[1]}, {short_name(row[0])}" if several else row[1],
        setting=lambda row: row[1],
        best_within=lambda row: "",
        average=len(grid.columns) > 1,
        others=False,
    )
    printed = published_mean_stops() if published else {}
    extra = [
        (_stop_cell(stops, row, printed.get(row[1])), Cell(text=_total_steps(group.runs, row))) for row in grid.rows
    ]
    widened = tuple(replace(row, cells=(*cells, *row.cells)) for row, cells in zip(rows.rows, extra, strict=True))
    rows = TableRows(("Mean n*", "M", *rows.columns), widened, rows.done, rows.expected)
    caption = "Rows: iteration rate β. Mean n*: steps until the stop, over target images; M: steps at most."
    return [make_table(group, title_of(group, "iteration rate β"), "β", rows, published, caption=caption)]


def _mean_stop(run: Run) -> float | None:
    value = run.facts.get("mean_iterations")
    return float(value) if run.ok and isinstance(value, int | float) else None


def _stop_cell(stops: Grid, row: RowKey, printed: float | None) -> Cell:
    values = stops.at(row, "")
    published = None if printed is None else PublishedFigure(printed)
    failed = len(stops.failed_at(row, ""))
    if not values and not failed:
        return Cell(text="not recorded")
    return Cell(summarise(list(values.values())), len(stops.seeds), failed, published, decimals=0)


def _total_steps(runs: Sequence[Run], row: RowKey) -> str:
    chosen = [run for run in runs if (run.method, setting_of(run, "beta", "unknown")) == row]
    places = [run.facts for run in chosen] + [run.config.get("projection") or {} for run in chosen]
    found = {str(place["steps"]) for place in places if isinstance(place, dict) and "steps" in place}
    return ", ".join(sorted(found)) or "not recorded"
