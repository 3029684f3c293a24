"""Rows of a table: figures beside the paper's and against their control, then what only the paper has."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from homefold.report.grid import Grid, RowKey
from homefold.report.names import control_of, short_name
from homefold.report.statistics import summarise_percent
from homefold.report.tables.published import PublishedFigure, PublishedTable, plain_target
from homefold.report.tables.standing import Standing, compare_rows, standing
from homefold.report.tables.table import Cell, Lead, Row

__all__ = ["AVERAGE", "TableRows", "make_rows"]

AVERAGE = "Avg."


@dataclass(frozen=True)
class TableRows:
    """Columns, rows, who leads the last column, and how many of the runs they need are there."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    done: int
    expected: int
    leads: tuple[Lead, ...] = ()


def make_rows(
    grid: Grid,
    published: PublishedTable | None,
    *,
    label: Callable[[RowKey], str],
    setting: Callable[[RowKey], str] = lambda row: row[1] if len(row) > 1 else "",
    best_within: Callable[[RowKey], str] | None = None,
    average: bool = True,
    others: bool = True,
    together: bool = False,
) -> TableRows:
    """The rows that were run, then those that only the paper has; `together` as in `compare_rows`."""
    average = average and len(grid.columns) > 1
    places = [(column,) for column in grid.columns] + ([grid.columns] if average else [])
    controls = {row: _control(grid, row) for row in grid.rows}
    cells = {
        row: [
            _cell(grid, row, control, columns, _printed(published, row[0], setting(row), columns), together)
            for columns in places
        ]
        for row, control in controls.items()
    }
    leads = []
    for rivals in _grouped(grid.rows, best_within or setting):
        for index, columns in enumerate(places):
            found = standing(grid, rivals, columns, together=together)
            if found.supported:
                cells[found.order[0]][index] = replace(cells[found.order[0]][index], best=True)
        if found.order:
            paper = _printed(published, "vae", setting(found.order[0]), places[-1])
            leads.append(_lead(found, cells[found.order[0]][-1], label, paper))
    rows = [
        Row(label(row), tuple(place), control=short_name(control[0]) if (control := controls[row]) else "")
        for row, place in cells.items()
    ]
    if published and others:
        rows += _published_rows(grid, published, setting, average=average)
    done = sum(len(values) for values in grid.values.values())
    expected = len(grid.seeds) * (len(grid.rows) * len(grid.columns) - len(grid.refused))
    columns = (*grid.columns, AVERAGE) if average else grid.columns
    return TableRows(columns, tuple(rows), done, expected, tuple(leads))


def _grouped(rows: Sequence[RowKey], by: Callable[[RowKey], str]) -> list[list[RowKey]]:
    groups: dict[str, list[RowKey]] = {}
    for row in rows:
        groups.setdefault(by(row), []).append(row)
    return list(groups.values())


def _cell(
    grid: Grid,
    row: RowKey,
    control: RowKey | None,
    columns: tuple[str, ...],
    published: PublishedFigure | None,
    together: bool,
) -> Cell:
    """The cell of a row: of one column, or of the mean of several; a dash where the method has no signal."""
    if any((row, column) in grid.refused for column in columns):
        return Cell(text="–")
    values = grid.at(row, columns[0]) if len(columns) == 1 else grid.averages(row)
    failed = grid.failed_at(row, *columns) - set(values)
    comparison = compare_rows(grid, row, control, columns, together=together) if control else None
    return Cell(summarise_percent(values.values()), len(grid.seeds), len(failed), published, comparison)


def _lead(found: Standing, cell: Cell, label: Callable[[RowKey], str], paper: PublishedFigure | None) -> Lead:
    """The lead in words: over the next row, and over Deep All."""
    beaten = dict.fromkeys(row for row in (*found.order[1:2], found.plain) if row is not None)
    ahead = tuple((label(row), found.ahead[row]) for row in beaten)
    return Lead(label(found.order[0]), cell, ahead, found.supported, tuple(map(label, found.fewer)), paper)


def _control(grid: Grid, row: RowKey) -> RowKey | None:
    """The row of the control under the same settings; none that looks at an image more often than the row itself."""
    present = [other[0] for other in grid.rows if other[1:] == row[1:]]
    method = control_of(row[0], present)
    control = None if method is None else (method, *row[1:])
    more = control is not None and grid.looks.get(control, 0) > grid.looks.get(row, math.inf)
    return None if more else control


def _printed(
    published: PublishedTable | None, method: str, setting: str, columns: tuple[str, ...]
) -> PublishedFigure | None:
    """The paper's figure of a method, or the mean of several."""
    return _mean([published.find(method, setting, column) for column in columns]) if published else None


def _mean(figures: Sequence[PublishedFigure | None]) -> PublishedFigure | None:
    """The mean of the paper's figures, where it has all of them."""
    if len(figures) == 1:
        return figures[0]
    means = [figure.mean for figure in figures if figure]
    return PublishedFigure(sum(means) / len(means)) if means and len(means) == len(figures) else None


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
