"""What each selection rule chose among candidates: one table for all methods and targets of a suite."""

from __future__ import annotations

from homefold.evaluation.selection import Choice
from homefold.report.names import shown_name
from homefold.report.runs import Run, RunFolder, Setup, slug
from homefold.report.statistics import summarise_percent
from homefold.report.tables.group import ORACLE
from homefold.report.tables.table import Cell, Row, Table

__all__ = ["choice_tables"]

_CAPTION = (
    "Every rule looks at the same candidates, and chooses the highest mean score over seeds: the spread is that of one "
    "setting. Judged are the candidates that have a score for every seed."
)


def choice_tables(folder: RunFolder) -> list[Table]:
    """One table for each suite, dataset, network and preset in which there was something to choose."""
    groups: dict[tuple[str, Setup], list[Choice[Run]]] = {}
    for choice in folder.choices:
        run = choice.records[0]
        setup = Setup(run.dataset, run.backbone, run.preset, run.selection, run.changes)
        groups.setdefault((run.suite, setup), []).append(choice)
    return [_table(suite, setup, found) for (suite, setup), found in groups.items()]


def _table(suite: str, setup: Setup, found: list[Choice[Run]]) -> Table:
    oracle = any(choice.rule == "oracle" for choice in found)
    return Table(
        name=slug("choices", suite, setup.dataset, setup.backbone, setup.preset, *setup.distinctions),
        title=f"What each rule chooses · {setup.title}",
        caption=f"{_CAPTION} {ORACLE}" if oracle else _CAPTION,
        stub="Method, target, rule",
        columns=("Accuracy, %", "Judged", "Chosen settings"),
        rows=tuple(map(_row, found)),
        suite="choices",
    )


def _row(choice: Choice[Run]) -> Row:
    run = choice.records[0]
    label = f"{shown_name(run.method)}, {_where(run)}, {choice.rule}{' †' if choice.rule == 'oracle' else ''}"
    accuracy = Cell(summarise_percent([run.percent for run in choice.records if run.ok]), len(choice.records))
    judged = Cell(text=f"{choice.judged} of {choice.candidates}")
    return Row(label, (accuracy, judged, Cell(text=choice.settings or "as it is")))


def _where(run: Run) -> str:
    """The target, and the split where that has a name of its own."""
    parts = (run.target, str(run.facts.get("split") or ""), str(run.facts.get("variation") or ""))
    return ", ".join(dict.fromkeys(filter(None, parts)))
