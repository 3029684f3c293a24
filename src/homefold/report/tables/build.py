"""Every table of the paper in its shape, made from runs; any other suite gets methods against targets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from homefold.report.runs import Run, RunFolder, setups
from homefold.report.selecting import SUITES, kind_of
from homefold.report.tables.cost import cost_tables
from homefold.report.tables.group import TableGroup
from homefold.report.tables.protocols import (
    few_shot_tables,
    scarce_tables,
    severity_tables,
    single_source_tables,
    target_tables,
)
from homefold.report.tables.search import beta_tables, stopping_tables
from homefold.report.tables.table import Table

__all__ = ["build_tables"]

_BUILDERS: dict[str, Callable[[TableGroup], list[Table]]] = {
    "targets": target_tables,
    "samplers": target_tables,
    "few-shot": few_shot_tables,
    "single-source": single_source_tables,
    "scarce": scarce_tables,
    "severity": severity_tables,
    "beta": beta_tables,
    "stopping": stopping_tables,
}


def build_tables(folder: RunFolder) -> list[Table]:
    """All tables that the runs give, in the paper's order, then what they cost, each with a name of its own.

    Args:
        folder: the runs.
    """
    places = list(SUITES)
    everything = (*folder.runs, *folder.missing)
    suites = sorted({run.suite for run in everything}, key=lambda suite: (_place(places, suite), suite))
    tables: list[Table] = []
    for suite in suites:
        runs = [run for run in everything if run.suite == suite]
        for kind, protocol_runs in _by_kind(suite, runs):
            for setup, group in setups(protocol_runs).items():
                tables += _BUILDERS[kind](TableGroup(suite, kind, setup, tuple(group)))
    return _named([*tables, *cost_tables(folder)])


def _by_kind(suite: str, runs: Sequence[Run]) -> list[tuple[str, list[Run]]]:
    """A suite is one protocol; runs outside of any suite are kept apart by theirs."""
    protocols = [""] if suite in SUITES else list(dict.fromkeys(run.protocol for run in runs))
    groups = [[run for run in runs if suite in SUITES or run.protocol == protocol] for protocol in protocols]
    return [(kind_of(suite, group), group) for group in groups]


def _place(places: list[str], suite: str) -> int:
    return places.index(suite) if suite in places else len(places)


def _named(tables: Sequence[Table]) -> list[Table]:
    """Number the names that stand twice."""
    seen: dict[str, int] = {}
    named = []
    for table in tables:
        seen[table.name] = seen.get(table.name, 0) + 1
        again = seen[table.name]
        named.append(table if again == 1 else replace(table, name=f"{table.name}-{again}"))
    return named
