"""The runs of one table, and the table around its rows: name, title, and a caption with all that must be known."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from homefold.report.grid import Grid, lay_out
from homefold.report.names import in_order, shown_name
from homefold.report.runs import Run, Setup, slug
from homefold.report.statistics import SURE_BELOW
from homefold.report.tables.published import PublishedTable, place_of, published_table
from homefold.report.tables.rows import AVERAGE, TableRows
from homefold.report.tables.table import Table

__all__ = ["ORACLE", "TableGroup", "make_table", "target_grid"]

ORACLE = "† Models were selected on the target itself (oracle): not a fair comparison."
_ONE_METHOD = ("beta", "stopping")  # kinds that vary a setting rather than compare methods
_LEAVE_ONE_OUT = ("", "leaveonedomainout", "leaveoneout", "lodo")


@dataclass(frozen=True)
class TableGroup:
    """The runs of one table."""

    suite: str
    kind: str
    setup: Setup
    runs: tuple[Run, ...]

    def published(self, **which: Any) -> PublishedTable | None:
        """The paper's table for these data, if it is about the same protocol."""
        if self.kind in ("targets", "samplers") and not all(_leaves_one_out(run) for run in self.runs):
            return None
        return published_table(self.kind, self.setup.dataset, self.setup.backbone, **which)


def _leaves_one_out(run: Run) -> bool:
    return re.sub("[^a-z]", "", run.protocol.lower()) in _LEAVE_ONE_OUT


def target_grid(runs: Iterable[Run], published: PublishedTable | None = None) -> Grid:
    """Methods against targets, in the paper's order where it has them."""
    return lay_out(runs, column=lambda run: run.target, first=place_of(published))


def make_table(
    group: TableGroup,
    rows: TableRows,
    published: PublishedTable | None,
    *,
    about: str = "",
    stub: str = "Method",
    caption: str = "",
    name: str = "",
) -> Table:
    """The table of these rows under what it is `about`, marked where models were selected on the target."""
    setup = group.setup
    parts = (group.suite or "runs", setup.dataset, name, setup.backbone, setup.preset, *setup.distinctions)
    marked = tuple(row if row.published else replace(row, label=f"{row.label} †") for row in rows.rows)
    return Table(
        name=slug(*dict.fromkeys(parts)),
        title=_title(group, about),
        caption=" ".join(part for part in (_caption(group, rows, published), caption) if part),
        stub=stub,
        columns=rows.columns,
        rows=marked if setup.oracle else rows.rows,
        oracle=setup.oracle,
        suite=group.suite,
        leads=rows.leads if group.kind not in _ONE_METHOD else (),
    )


def _title(group: TableGroup, what: str) -> str:
    """Data, network, preset, and what the table is about."""
    suite = group.suite if group.kind in ("targets", "samplers") else ""
    same = suite.replace("-", "") == group.setup.dataset.lower().replace("-", "").replace("_", "")
    return " · ".join(part for part in (group.setup.title, what or ("" if same else suite)) if part)


def _caption(group: TableGroup, rows: TableRows, published: PublishedTable | None) -> str:
    runs = group.runs
    seeds = sorted({run.seed for run in runs})
    followed = [shown_name(method) for method in in_order(run.method for run in runs if run.recipe == "authors")]
    sentences = [_how_measured(len(seeds), rows)]
    facts = [
        ("Protocol", sorted({run.protocol for run in runs})),
        ("selection", sorted({run.selection for run in runs})),
        ("preset", [group.setup.preset]),
        *([("with", [group.setup.changes])] if group.setup.changes else []),
        *([("at their authors’ recipe", followed)] if followed else []),
        ("backbone", [group.setup.backbone]),
        ("seeds", [_ranges(seeds)]),
    ]
    named = "; ".join(f"{what} {', '.join(filter(None, values)) or 'not recorded'}" for what, values in facts)
    sentences.append(f"{named}; {sum(run.ok for run in runs)} runs finished, {_left(group, rows)}.")
    sentences += [f"–: {reason}" for reason in dict.fromkeys(run.no_signal for run in runs) if reason]
    if group.setup.oracle:
        sentences.append(ORACLE)
    if published:
        network = f" (with {published.backbone})" if published.backbone else ""
        sentences.append(f"paper: the printed figure{network}, and in parentheses ours minus it.")
    return " ".join(sentences)


def _how_measured(seeds: int, rows: TableRows) -> str:
    """What the signs in the cells mean, as far as they are there, and what a figure in bold needs."""
    cells = [cell for row in rows.rows for cell in row.cells]
    parts = ["Accuracy on the unseen target in %"]
    if seeds > 1:
        parts.append("mean ± standard deviation over seeds, [95 % confidence interval, Student’s t]")
    else:
        parts.append("one seed, so no spread, no test, and nothing in bold")
    sentences = [f"{': '.join(parts)}."]
    if any(cell.comparison for cell in cells):
        sentences.append("Δ: difference to the control named in the row.")
    if seeds > 1 and (any(cell.comparison for cell in cells) or any(lead.ahead for lead in rows.leads)):
        over = " (Avg.: over targets and seeds)" if rows.columns[-1] == AVERAGE else ""
        sentences.append(f"p: two-sided paired t-test over seeds{over}, not adjusted for the number of tests.")
    if seeds > 1 and any(lead.ahead for lead in rows.leads):
        bold = f"p < {SURE_BELOW:g} against every other row under the same setting with as many seeds"
        none = "" if any(cell.best for cell in cells) else "; no figure here has that"
        sentences.append(f"Bold: {bold}{none}.")
    return " ".join(sentences)


def _left(group: TableGroup, rows: TableRows) -> str:
    failed = sum(run.failed for run in group.runs)
    planned = sum(not run.recorded and not run.no_signal for run in group.runs)
    missing = rows.expected - rows.done
    if not failed and not missing:
        return "none missing"
    left = f", {planned} planned but not run" if planned else ""
    return f"{failed} failed{left}, {missing} of {rows.expected} figures without a value"


def _ranges(seeds: Sequence[int]) -> str:
    consecutive = len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[-1] + 1))
    return f"{seeds[0]}–{seeds[-1]} (n = {len(seeds)})" if consecutive else ", ".join(map(str, seeds))
