"""Runs laid out in rows and columns, with one value a seed in each place and account of what is missing."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field

from homefold.report.names import in_order
from homefold.report.runs import Run

__all__ = ["Grid", "RowKey", "lay_out", "numeric"]

RowKey = tuple[str, ...]
"""The method's key, then the settings that make a row of their own, as text."""


@dataclass(frozen=True)
class Grid:
    """Values by place and seed.

    Args:
        seeds: all that any run of the grid has or is planned to have; a place without one of them misses it.
        values: by (row, column), by seed.
        failed: seeds that ended in an error, by (row, column).
        refused: places of methods that have no signal in the protocol, by (row, column).
        looks: how often the runs of a row look at an image, by row; a row whose runs do not say so is missing.
    """

    rows: tuple[RowKey, ...]
    columns: tuple[str, ...]
    seeds: tuple[int, ...]
    values: dict[tuple[RowKey, str], dict[int, float]]
    failed: dict[tuple[RowKey, str], set[int]]
    refused: frozenset[tuple[RowKey, str]] = frozenset()
    looks: dict[RowKey, int] = field(default_factory=dict)

    def at(self, row: RowKey, column: str) -> dict[int, float]:
        """The values of a place by seed."""
        return self.values.get((row, column), {})

    def averages(self, row: RowKey) -> dict[int, float]:
        """The mean over all columns for each seed that has every one of them."""
        places = [self.at(row, column) for column in self.columns]
        complete = [seed for seed in self.seeds if all(seed in place for place in places)]
        return {seed: sum(place[seed] for place in places) / len(places) for seed in complete}

    def failed_at(self, row: RowKey, *columns: str) -> set[int]:
        """The seeds that failed in any of these columns."""
        return set().union(*(self.failed.get((row, column), ()) for column in columns))


def lay_out(
    runs: Iterable[Run],
    *,
    column: Callable[[Run], str],
    row: Callable[[Run], RowKey] = lambda run: (run.method,),
    unit: Callable[[Run], Hashable] = lambda run: None,
    value: Callable[[Run], float | None] = lambda run: run.percent if run.ok else None,
    order_rows: Callable[[Sequence[RowKey]], Sequence[RowKey]] | None = None,
    first: Callable[[str], float] = lambda column: 0,
) -> Grid:
    """Lay runs out; where a place holds several units (types of corruption), its value is their mean.

    A seed has a value in a place only if it has all units that any row has in that column: a mean over fewer would
    not compare.

    Args:
        column: key of the run's column; columns stand by number, then by name.
        unit: what tells apart the runs of one place and seed.
        value: what to show; None for a run that has none.
        order_rows: puts the keys of rows in order; by method, Deep All first and the full one last, then by number.
        first: columns for which it is lower stand before others.
    """
    found: dict[tuple[RowKey, str], dict[int, dict[Hashable, float]]] = {}
    failed: dict[tuple[RowKey, str], set[int]] = {}
    units: dict[str, set[Hashable]] = {}
    refused: set[tuple[RowKey, str]] = set()
    looks: dict[RowKey, int] = {}
    for run in runs:
        place = (row(run), column(run))
        if run.looks is not None:
            looks[place[0]] = run.looks
        units.setdefault(place[1], set()).add(unit(run))
        shown = value(run)
        by_unit = found.setdefault(place, {}).setdefault(run.seed, {})
        if shown is not None:
            by_unit[unit(run)] = shown
        elif run.failed:
            failed.setdefault(place, set()).add(run.seed)
        elif run.no_signal:
            refused.add(place)
    values = {
        (key, name): {seed: sum(of.values()) / len(of) for seed, of in by_seed.items() if set(of) == units[name]}
        for (key, name), by_seed in found.items()
    }
    rows = (order_rows or _by_method)(list(dict.fromkeys(key for key, _ in found)))
    columns = sorted(units, key=lambda name: (first(name), numeric(name)))
    seeds = sorted({seed for by_seed in found.values() for seed in by_seed})
    return Grid(tuple(rows), tuple(columns), tuple(seeds), values, failed, frozenset(refused), looks)


def _by_method(rows: Sequence[RowKey]) -> list[RowKey]:
    methods = in_order(row[0] for row in rows)
    return sorted(rows, key=lambda row: (methods.index(row[0]), *map(numeric, row[1:])))


def numeric(text: str) -> tuple[float, str]:
    """A key that sorts numbers by size and puts all other text behind them."""
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text
