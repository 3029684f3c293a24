"""What `homefold bench` says at its end: accuracies, what selection rules chose, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import stdev

from rich.table import Table

from homefold.cli.bench_board import show_seconds
from homefold.cli.output import note, result_console, result_table, show_share
from homefold.evaluation.records import RunRecord
from homefold.evaluation.selection import Choice, choices, choose, settings_of

__all__ = ["choices_of", "print_tables"]

_PEEKED = "on the target itself: an upper bound, not a result"


def print_tables(records: Sequence[RunRecord], path: Path) -> None:
    """The accuracies, of what was chosen where a rule chose among candidates; the choices; and what failed."""
    console = result_console()
    if records:
        first = records[0]
        peeked = f" ({_PEEKED})" if first.selection == "oracle" else ""
        console.print(
            f"Accuracy on {first.dataset}, {first.protocol}, selection {first.selection}{peeked}", soft_wrap=True
        )
    console.print(_accuracy_table([record for found in _by_place(records) for record in _that_count(found)]))
    if any(settings_of(record) is not None for record in records):
        console.print("What each selection rule chooses, by its mean score over seeds", soft_wrap=True)
        console.print(_choice_table(choices_of(records)))
        console.print(f"† {_PEEKED}", soft_wrap=True)
    seconds = sum(record.seconds.get("run", 0.0) for record in records)
    console.print(f"{len(records)} runs, {show_seconds(seconds)} of work, in {path}", soft_wrap=True)
    for record in records:
        if record.status == "failed":
            note(f"failed: {_name(record)} on {record.target}{_tried(record)}, seed {record.seed}: {record.error}")


def choices_of(records: Iterable[RunRecord]) -> list[Choice[RunRecord]]:
    """What each rule chooses for each method on each target."""
    return [choice for found in _by_place(records) if settings_of(found[0]) is not None for choice in choices(found)]


def _by_place(records: Iterable[RunRecord]) -> list[list[RunRecord]]:
    """The records of each cell of the table: all seeds, and all candidates."""
    places: dict[tuple[str, ...], list[RunRecord]] = {}
    for record in records:
        places.setdefault((*_row(record), record.target), []).append(record)
    return list(places.values())


def _that_count(records: list[RunRecord]) -> Sequence[RunRecord]:
    """Of candidates the chosen one's; all of them where none could be chosen, to show why."""
    if settings_of(records[0]) is None:
        return records
    choice = choose(records, records[0].selection)
    return choice.records if choice else [record for record in records if record.accuracy is None]


def _accuracy_table(records: Sequence[RunRecord]) -> Table:
    """Mean accuracy over seeds, a row for each method and variation, a column for each target."""
    groups: dict[tuple[str, str, str], dict[str, list[RunRecord]]] = {}
    targets = list(dict.fromkeys(record.target for record in records))
    for record in records:
        groups.setdefault(_row(record), {}).setdefault(record.target, []).append(record)
    shown = 3 if any(detail for _, _, detail in groups) else 2
    columns = ("network", "method", "varied")[:shown]
    table = result_table(*columns, *targets, numbers=len(targets))
    for names, cells in groups.items():
        table.add_row(*names[:shown], *(_cell(cells.get(target, [])) for target in targets))
    return table


def _choice_table(found: Sequence[Choice[RunRecord]]) -> Table:
    table = result_table("method", "target", "rule", "accuracy", "judged", "chosen")
    for choice in found:
        record, values = choice.records[0], choice.accuracies
        spread = f" ± {100 * stdev(values):.1f}" if len(values) > 1 else ""
        accuracy = show_share(sum(values) / len(values)).replace(" %", f"{spread} %")
        rule = f"{choice.rule} †" if choice.rule == "oracle" else choice.rule
        judged = f"{choice.judged} of {choice.candidates}"
        table.add_row(_name(record), record.target, rule, accuracy, judged, choice.settings or "as it is")
    return table


def _name(record: RunRecord) -> str:
    detail = _row(record)[2]
    return f"{record.method} ({detail})" if detail else record.method


def _tried(record: RunRecord) -> str:
    settings = settings_of(record)
    return f", {settings}" if settings else ""


def _row(record: RunRecord) -> tuple[str, str, str]:
    """Network, method, and what tells this run from the method's others on the same target: the variation, and the
    split if it has a name.

    The target's name stands above the column, so it is left out.
    """
    split = str(record.facts.get("split", ""))
    part = "" if split == record.target else split.removeprefix(f"{record.target}, ")
    detail = ", ".join(text for text in (str(record.facts.get("variation", "")), part) if text)
    return record.backbone, record.method, detail


def _cell(records: list[RunRecord]) -> str:
    if not records:
        return "–"
    values = [record.accuracy for record in records if record.accuracy is not None]
    failed = len(records) - len(values)
    if not values:
        return "failed"
    shown = show_share(sum(values) / len(values))
    return f"{shown} ({failed} failed)" if failed else shown
