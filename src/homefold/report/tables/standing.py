"""Who leads, and whether the seeds support it: the rule behind every figure in bold and behind the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from homefold.report.grid import Grid, RowKey
from homefold.report.statistics import Comparison, compare

__all__ = ["Standing", "compare_rows", "standing"]


@dataclass(frozen=True)
class Standing:
    """Rows of one column by their means, and how the first compares with the others.

    Args:
        order: rows with all their seeds, the best first.
        ahead: of each other row, how far the first is ahead of it.
        fewer: rows that have a value and too few seeds to compete.
    """

    order: tuple[RowKey, ...]
    ahead: Mapping[RowKey, Comparison | None]
    fewer: tuple[RowKey, ...]

    @property
    def supported(self) -> bool:
        """Whether the seeds support that the first is ahead of every other row."""
        return bool(self.ahead) and all(found is not None and found.sure for found in self.ahead.values())

    @property
    def plain(self) -> RowKey | None:
        """What the first must beat to be worth anything: Deep All, where that is another row."""
        first = self.order[0]
        return next((row for row in self.order[1:] if row[0] == "deep-all" and row[1:] == first[1:]), None)


def compare_rows(
    grid: Grid, row: RowKey, other: RowKey, columns: tuple[str, ...], *, together: bool
) -> Comparison | None:
    """How far a row is ahead of another on the mean of these columns.

    Args:
        together: one training answers for all columns, so that they are no independent samples of a seed's luck.
    """
    if together:
        return compare([grid.averages(row)], [grid.averages(other)])
    return compare([grid.at(row, column) for column in columns], [grid.at(other, column) for column in columns])


def standing(grid: Grid, rows: Iterable[RowKey], columns: tuple[str, ...], *, together: bool = False) -> Standing:
    """The standing of rows on the mean of these columns; a mean over fewer seeds than another has does not compete."""
    found = {row: grid.at(row, columns[0]) if len(columns) == 1 else grid.averages(row) for row in rows}
    found = {row: values for row, values in found.items() if values}
    most = max(map(len, found.values()), default=0)
    means = {row: sum(values.values()) / most for row, values in found.items() if len(values) == most}
    order = tuple(sorted(means, key=lambda row: -means[row]))
    ahead = {other: compare_rows(grid, order[0], other, columns, together=together) for other in order[1:]}
    return Standing(order, ahead, tuple(row for row in found if row not in means))
