"""The verdict that a report opens with: who leads each table, by how much, and whether the seeds support it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from homefold.report.statistics import Comparison
from homefold.report.tables.rows import AVERAGE
from homefold.report.tables.table import Cell, Lead, Table
from homefold.runtime.text import counted

__all__ = ["Finding", "Verdict", "verdicts"]


@dataclass(frozen=True)
class Finding:
    """Who leads under one setting, and what stands behind it, a sentence each.

    Args:
        support: whether the seeds support that it is ahead of every other row, in a word or two.
    """

    leads: str
    support: str
    behind: tuple[str, ...]


@dataclass(frozen=True)
class Verdict:
    """What a table says: a finding for each of its settings.

    Args:
        table: the name of the table.
    """

    table: str
    title: str
    findings: tuple[Finding, ...]


def verdicts(tables: Iterable[Table]) -> list[Verdict]:
    """One for each table that compares methods."""
    return [
        Verdict(table.name, table.title, tuple(_finding(table, lead) for lead in table.leads))
        for table in tables
        if table.leads
    ]


def _finding(table: Table, lead: Lead) -> Finding:
    where = f"on average over {len(table.columns) - 1} targets" if _averaged(table) else f"on {table.columns[-1]}"
    leads = f"{lead.first} {'leads with' if lead.ahead else 'has'} {lead.cell.main} % {where}."
    return Finding(leads, _support(lead), tuple(_behind(lead)))


def _support(lead: Lead) -> str:
    if not lead.ahead:
        return "nothing to compare with"
    if lead.cell.summary is None or lead.cell.summary.n < 2:
        return "one seed"
    return "supported by the seeds" if lead.supported else "not supported by the seeds"


def _averaged(table: Table) -> bool:
    return table.columns[-1] == AVERAGE


def _behind(lead: Lead) -> list[str]:
    seeds = lead.cell.summary.n if lead.cell.summary else 0
    sentences = [_ahead(name, comparison, seeds) for name, comparison in lead.ahead]
    printed = lead.cell.published or lead.paper
    if printed is not None and lead.cell.summary is not None:
        whose = "it" if lead.cell.published else "its own method"
        gap = lead.cell.signed(lead.cell.summary.mean - printed.mean)
        sentences.append(f"The paper prints {lead.cell.number(printed.mean)} for {whose}: {gap} here.")
    if lead.fewer:
        sentences.append(f"Not compared, with fewer than {counted(seeds, 'seed')}: {', '.join(lead.fewer)}.")
    return sentences


def _ahead(name: str, comparison: Comparison | None, seeds: int) -> str:
    """How far it is ahead of another row, and whether that is more than luck."""
    if comparison is None:
        return f"No seed in common with {name}."
    if seeds < 2:
        support = "one seed cannot support it"
    elif comparison.p is None:
        support = "every seed differs by the same, which cannot be tested"
    else:
        said = f"p = {comparison.p:.3f}" if comparison.p >= 0.001 else "p < 0.001"
        support = f"{counted(seeds, 'seed')} {'support' if comparison.sure else 'do not support'} it ({said})"
    return f"{Cell().signed(comparison.difference)} points on {name}: {support}."
