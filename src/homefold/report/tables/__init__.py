"""Every table of the paper in its shape, made from runs; any other suite gets methods against targets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from homefold.report.runs import Run, RunFolder, numbered, setups
from homefold.report.selecting import SUITES, kind_of
from homefold.report.tables.choices import choice_tables
from homefold.report.tables.cost import cost_tables
from homefold.report.tables.group import TableGroup
from homefold.report.tables.protocols import SHAPES
from homefold.report.tables.table import Table

__all__ = ["build_tables"]


def build_tables(folder: RunFolder) -> list[Table]:
    """All tables that the runs give, in the paper's order, then what they cost, each with a name of its own."""
    everything, places = (*folder.runs, *folder.missing), list(SUITES)
    suites = sorted({run.suite for run in everything} - SUITES.keys())
    tables: list[Table] = []
    for suite in (*places, *suites):
        for kind, runs in _by_kind(suite, [run for run in everything if run.suite == suite]):
            for setup, group in setups(runs).items():
                tables += SHAPES[kind](TableGroup(suite, kind, setup, tuple(group)))
    seen: Counter[str] = Counter()
    return [
        replace(table, name=numbered(table.name, seen))
        for table in (*tables, *choice_tables(folder), *cost_tables(folder))
    ]


def _by_kind(suite: str, runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """A suite is one protocol; runs outside of any suite are kept apart by theirs."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault("" if suite in SUITES else run.protocol, []).append(run)
    return [(kind_of(suite, group), group) for group in groups.values()]
