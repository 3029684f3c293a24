"""Rows of a table: figures beside the paper's and against their control, then what only the paper has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from homefold.report.grid import Grid, RowKey
from homefold.report.names import control_of, short_name
from homefold.report.statistics import compare, summarise_percent
from homefold.report.tables.published import PublishedFigure, PublishedTable, plain_target
from homefold.report.tables.table import Cell, Row

__all__ = ["AVERAGE", "TableRows", "make_rows"]

AVERAGE = "Avg."


@dataclass(frozen=True)
class TableRows:
    """Columns, rows, and how many of the runs they need are there."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    done: int
    expected: int


def make_rows(
    grid: Grid,
    published: PublishedTable | None,
    *,
    label: Callable[[RowKey], str],
    setting: Callable[[RowKey], str] = lambda row: row[1] if len(row) > 1 else "",
    best_within: Callable[[RowKey], str] | None = None,
    average: bool = True,
    others: bool = True,
) -> TableRows:
    """The rows that were run, then those that only the paper has."""
    best_within = best_within or setting
    keys = list(grid.columns)
    average = average and len(keys) > 1
    cells: dict[RowKey, list[Cell]] = {}
    controls = {row: _control(grid, row) for row in grid.rows}
    for row, control in controls.items():
        printed = [published.find(row[0], setting(row), column) if published else None for column in keys]
        cells[row] = [_cell(grid, row, control, column, figure) for column, figure in zip(keys, printed, strict=True)]
        if average:
            cells[row].append(_cell(grid, row, control, None, _mean(printed)))
    rows = [
        Row(label(row), tuple(place), control=short_name(control[0]) if (control := controls[row]) else "")
        for row, place in _with_best(cells, best_within).items()
    ]
    if published and others:
        rows += _published_rows(grid, published, setting, average=average)
    done = sum(len(values) for values in grid.values.values())
    expected = len(grid.rows) * len(keys) * len(grid.seeds)
    return TableRows((*keys, AVERAGE) if average else tuple(keys), tuple(rows), done, expected)


def _cell(
    grid: Grid, row: RowKey, control: RowKey | None, column: str | None, published: PublishedFigure | None
) -> Cell:
    """The cell of a row in a column, or of its average."""
    values = grid.averages(row) if column is None else grid.at(row, column)
    others = {} if control is None else grid.averages(control) if column is None else grid.at(control, column)
    failed = grid.failed_at(row, *grid.columns) - set(values) if column is None else grid.failed_at(row, column)
    comparison = compare(values, others) if control else None
    return Cell(summarise_percent(values.values()), len(grid.seeds), len(failed), published, comparison)


def _control(grid: Grid, row: RowKey) -> RowKey | None:
    """The row of the control under the same settings; none that looks at an image more often than the row itself."""
    present = [other[0] for other in grid.rows if other[1:] == row[1:]]
    method = control_of(row[0], present)
    control = None if method is None else (method, *row[1:])
    more = control is not None and grid.looks.get(control, 0) > grid.looks.get(row, math.inf)
    return None if more else control


def _mean(figures: Sequence[PublishedFigure | None]) -> PublishedFigure | None:
    """The mean of the paper's figures, where it has all of them."""
    means = [figure.mean for figure in figures if figure]
    return PublishedFigure(sum(means) / len(means)) if means and len(means) == len(figures) else None


def _with_best(cells: dict[RowKey, list[Cell]], setting: Callable[[RowKey], str]) -> dict[RowKey, list[Cell]]:
    """Mark the highest figure of each column and setting, and those that look the same, when there is a choice.

    A mean over fewer seeds than another has does not compare with it, and is not marked.
    """
    width = len(next(iter(cells.values()), []))
    for which in {setting(row) for row in cells}:
        for column in range(width):
            places = {row: place[column] for row, place in cells.items() if setting(row) == which}
            found = {row: cell.summary for row, cell in places.items() if cell.summary}
            most = max((summary.n for summary in found.values()), default=0)
            means = {row: round(s.mean, places[row].decimals) for row, s in found.items() if s.n == most}
            for row, mean in means.items():
                cells[row][column] = replace(places[row], best=len(found) > 1 and mean == max(means.values()))
    return cells


def _published_rows(
    grid: Grid, published: PublishedTable, setting: Callable[[RowKey], str], *, average: bool
) -> list[Row]:
    """What the paper compares with and nobody ran here."""
    here = {(published.printed_method(row[0]), setting(row)) for row in grid.rows}
    rows = []
    for method, which in published.methods:
        if (method, which) in here:
            continue
        figures = [published.figures.get((method, which, plain_target(column))) for column in grid.columns]
        if not any(figures):
            continue
        figures += [_mean(figures)] if average else []
        cells = [Cell(published=figure) if figure else Cell(text="not printed") for figure in figures]
        suffix = f", {which} per class" if which else ""
        rows.append(Row(f"{_unicode(method)}{suffix} (paper)", tuple(cells), published=True))
    return rows


def _unicode(method: str) -> str:
    return method.replace(r"G_\phi", "G_φ").replace(r"f_\theta", "f_θ")
