"""The runs of one table, and the order in which their rows and columns stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from homefold.report.grid import Grid, RowKey, lay_out
from homefold.report.names import in_order
from homefold.report.runs import Run, Setup
from homefold.report.tables.published import PublishedTable, plain_target, published_table

__all__ = ["TableGroup", "numeric", "order_rows", "order_targets", "target_grid"]

_LEAVE_ONE_OUT = ("", "leaveonedomainout", "leaveoneout", "lodo")


@dataclass(frozen=True)
class TableGroup:
    """The runs of one table."""

    suite: str
    kind: str
    setup: Setup
    runs: tuple[Run, ...]

    @property
    def methods(self) -> list[str]:
        return in_order(run.method for run in self.runs)

    @property
    def oracle(self) -> bool:
        return any(run.oracle for run in self.runs)

    def published(self, **which: Any) -> PublishedTable | None:
        """The paper's table for these data, if it is about the same protocol."""
        kind = self.kind
        if kind in ("targets", "samplers") and not all(_leaves_one_out(run) for run in self.runs):
            return None
        return published_table(kind, self.setup.dataset, self.setup.backbone, **which)


def _leaves_one_out(run: Run) -> bool:
    return re.sub("[^a-z]", "", run.protocol.lower()) in _LEAVE_ONE_OUT


def target_grid(runs: Iterable[Run], published: PublishedTable | None = None) -> Grid:
    """Methods against targets, in the paper's order where it has them."""
    return lay_out(
        runs,
        row=lambda run: (run.method,),
        column=lambda run: run.target,
        order_rows=order_rows,
        order_columns=lambda columns: order_targets(columns, published),
    )


def order_rows(rows: Sequence[RowKey]) -> list[RowKey]:
    """Rows by method, Deep All first and the full method last, then by number."""
    methods = in_order(row[0] for row in rows)
    return sorted(rows, key=lambda row: (methods.index(row[0]), *map(numeric, row[1:])))


def numeric(text: str) -> tuple[float, str]:
    """A key that sorts numbers by size and puts all other text behind them."""
    try:
        return float(text), ""
    except ValueError:
        return float("inf"), text


def order_targets(columns: Sequence[str], published: PublishedTable | None) -> list[str]:
    """Columns as the paper orders its targets, then the others."""
    printed = published.targets if published else []
    place = {target: i for i, target in enumerate(printed)}
    return sorted(columns, key=lambda column: (place.get(plain_target(column), len(printed)), numeric(column)))
