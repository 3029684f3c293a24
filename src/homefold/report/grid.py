"""Runs laid out in rows and columns, with one value a seed in each place and account of what is missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from homefold.report.runs import Run

__all__ = ["Grid", "RowKey", "lay_out"]

RowKey = tuple[str, ...]
"""The method's key, then the settings that make a row of their own, as text."""


@dataclass(frozen=True)
class Grid:
    """Values by place and seed.

    Args:
        rows: keys of the rows.
        columns: keys of the columns.
        seeds: all that any run of the grid has or is planned to have; a place without one of them misses it.
        values: by (row, column), by seed.
        failed: seeds that ended in an error, by (row, column).
        looks: how often the runs of a row look at an image, by row; a row whose runs do not say so is missing.
    """

    rows: tuple[RowKey, ...]
    columns: tuple[str, ...]
    seeds: tuple[int, ...]
    values: dict[tuple[RowKey, str], dict[int, float]]
    failed: dict[tuple[RowKey, str], set[int]]
    looks: dict[RowKey, int] = field(default_factory=dict)

    def at(self, row: RowKey, column: str) -> dict[int, float]:
        """The values of a place by seed."""
        return self.values.get((row, column), {})

    def failed_at(self, row: RowKey, column: str) -> set[int]:
        """The seeds that failed in a place."""
        return self.failed.get((row, column), set())

    def averages(self, row: RowKey) -> dict[int, float]:
        """The mean over all columns for each seed that has every one of them."""
        places = [self.at(row, column) for column in self.columns]
        complete = [seed for seed in self.seeds if all(seed in place for place in places)]
        return {seed: sum(place[seed] for place in places) / len(places) for seed in complete}

    def failed_anywhere(self, row: RowKey) -> set[int]:
        """The seeds that failed in any column."""
        return set().union(*(self.failed_at(row, column) for column in self.columns))


def lay_out(
    runs: Iterable[Run],
    *,
    row: Callable[[Run], RowKey],
    column: Callable[[Run], str],
    unit: Callable[[Run], Hashable] = lambda run: None,
    value: Callable[[Run], float | None] = lambda run: run.percent if run.ok else None,
    order_rows: Callable[[Sequence[RowKey]], Sequence[RowKey]] = list,
    order_columns: Callable[[Sequence[str]], Sequence[str]] = list,
) -> Grid:
    """Lay runs out; where a place holds several units (types of corruption), its value is their mean.

    A seed has a value in a place only if it has all units that any row has in that column: a mean over fewer would
    not compare.

    Args:
        runs: to lay out.
        row: key of the run's row.
        column: key of its column.
        unit: what tells apart the runs of one place and seed.
        value: what to show; None for a run that has none.
        order_rows: puts the keys of rows in order.
        order_columns: puts the keys of columns in order.
    """
    found: dict[tuple[RowKey, str], dict[int, dict[Hashable, float]]] = {}
    failed: dict[tuple[RowKey, str], set[int]] = {}
    units: dict[str, set[Hashable]] = {}
    seeds: set[int] = set()
    looks: dict[RowKey, int] = {}
    for run in runs:
        place = (row(run), column(run))
        seeds.add(run.seed)
        if run.looks is not None:
            looks[place[0]] = run.looks
        units.setdefault(place[1], set()).add(unit(run))
        shown = value(run)
        by_unit = found.setdefault(place, {}).setdefault(run.seed, {})
        if shown is not None:
            by_unit[unit(run)] = shown
        elif run.failed:
            failed.setdefault(place, set()).add(run.seed)
    values = {
        place: {
            seed: sum(by_unit.values()) / len(by_unit)
            for seed, by_unit in by_seed.items()
            if set(by_unit) == units[place[1]]
        }
        for place, by_seed in found.items()
    }
    rows = tuple(order_rows(list(dict.fromkeys(place[0] for place in found))))
    columns = tuple(order_columns(list(units)))
    return Grid(rows, columns, tuple(sorted(seeds)), values, failed, looks)
