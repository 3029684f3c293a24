"""What `homefold bench` says at its end: accuracies, what selection rules chose, and what failed."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from statistics import stdev

from rich.table import Table

from homefold.cli.bench_board import show_seconds
from homefold.cli.output import note, result_console, result_table, show_share
from homefold.evaluation.records import RunRecord
from homefold.evaluation.selection import Choice, choices, choose, settings_of
from homefold.report.grid import Grid, RowKey, lay_out
from homefold.report.runs import Run
from homefold.report.statistics import summarise
from homefold.runtime.text import counted

__all__ = ["choices_of", "print_tables"]

_MOST_TARGETS = 12
_PEEKED = "on the target itself: an upper bound, not a result"


def print_tables(records: Sequence[RunRecord], path: Path) -> None:
    """The accuracies, of what was chosen where a rule chose among candidates; the choices; what failed and is next."""
    console = result_console()
    seeds = len({record.seed for record in records})
    if records:
        first = records[0]
        peeked = f" ({_PEEKED})" if first.selection == "oracle" else ""
        figures = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "one seed"
        head = f"Accuracy in % on {first.dataset}, {first.protocol}, selection {first.selection}{peeked}; {figures}"
        console.print(head, soft_wrap=True)
    console.print(_accuracy_table([record for found in _by_place(records) for record in _that_count(found)]))
    if any(settings_of(record) is not None for record in records):
        console.print("What each selection rule chooses, by its mean score over seeds", soft_wrap=True)
        console.print(_choice_table(choices_of(records)))
        console.print(f"† {_PEEKED}", soft_wrap=True)
    seconds = sum(record.seconds.get("run", 0.0) for record in records)
    console.print(f"{len(records)} runs, {show_seconds(seconds)} of work, in {path}", soft_wrap=True)
    failed = [record for record in records if record.status == "failed"]
    for record in failed:
        note(f"failed: {_name(record)} on {record.target}{_tried(record)}, seed {record.seed}: {record.error}")
    for step in _next_steps(len(failed), seeds, path.parent):
        console.print(step, soft_wrap=True)


def _next_steps(failed: int, seeds: int, out: Path) -> list[str]:
    again = [f"Next: the same command once more tries the {counted(failed, 'failed run')} again."] if failed else []
    more = ["Next: one seed shows no spread; the same command with --seeds 3 adds two."] if seeds == 1 else []
    return [*again, *more, f"Next: homefold report {shlex.quote(str(out))}  (verdict, tests, figures)"]


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
    """A row for each method and variation, a column for each target and their average; only that of very many."""
    targets = list(dict.fromkeys(record.target for record in records))
    grid = lay_out(
        [Run(**vars(record)) for record in records],
        row=_row,
        column=lambda run: run.target,
        order_rows=list,
        first=targets.index,
    )
    shown = grid.columns if len(targets) <= _MOST_TARGETS else ()
    average = ("Avg.",) if len(targets) > 1 else ()
    names = ("network", "method", "varied")[: 3 if any(row[2] for row in grid.rows) else 2]
    table = result_table(*names, *shown, *average, numbers=len(shown) + len(average))
    for row in grid.rows:
        cells = [_cell(grid, row, grid.at(row, column).values(), column) for column in shown]
        cells += [_cell(grid, row, grid.averages(row).values(), *grid.columns) for _ in average]
        table.add_row(*row[: len(names)], *cells)
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


def _cell(grid: Grid, row: RowKey, values: Collection[float], *columns: str) -> str:
    summary, failed = summarise(values), len(grid.failed_at(row, *columns))
    if summary is None:
        return "failed" if failed else "–"
    shown = f"{summary.mean:.1f}" + ("" if summary.std is None else f" ± {summary.std:.1f}")
    return f"{shown} ({failed} failed)" if failed else shown
