"""What each method costs beside what it is worth: accuracy, seconds of training, milliseconds an image, parameters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from homefold.report.grid import Grid, RowKey, lay_out
from homefold.report.names import shown_name
from homefold.report.runs import SETTINGS, Run, RunFolder, Setup, slug
from homefold.report.selecting import of_kind, once
from homefold.report.statistics import Summary, summarise, summarise_percent
from homefold.report.tables.group import ORACLE
from homefold.report.tables.published import PublishedTable, published_table
from homefold.report.tables.table import Cell, Row, Table

__all__ = ["cost_tables"]

_COLUMNS = ("Accuracy, %", "Training, s", "Inference, ms per image", "Parameters, M")
_FALLBACK = ("few-shot", "single-source", "scarce", "severity")
_SMALL = 0.1


def cost_tables(folder: RunFolder) -> list[Table]:
    """One table for each setup that has times: of leave-one-domain-out, or of the other protocols where that is not."""
    planned = (run for run in folder.missing if not run.no_signal)
    everything = replace(folder, runs=(*folder.runs, *planned), missing=())
    found = of_kind(everything, "targets", "samplers") or of_kind(everything, *_FALLBACK)
    return [_table(setup, once(runs)) for setup, runs in found if any(_timed(run) for run in runs)]


def _timed(run: Run) -> bool:
    return run.ok and (run.training_seconds is not None or run.seconds_per_image is not None)


def _table(setup: Setup, runs: Sequence[Run]) -> Table:
    machines = sorted({run.hardware or "hardware not recorded" for run in runs if _timed(run)})

    def key(run: Run) -> RowKey:
        # Times of different machines do not compare, so each has rows of its own.
        return (run.method, run.hardware or "hardware not recorded") if len(machines) > 1 else (run.method,)

    grid = lay_out(
        runs,
        row=key,
        column=lambda run: "",
        unit=lambda run: (run.target, *(str(run.facts.get(name)) for name in SETTINGS)),
    )
    counted = any(_millions(run) for run in runs)
    printed = published_table("cost", setup.dataset, setup.backbone) if counted else None
    rows = [_row(grid, row, [run for run in runs if key(run) == row], setup, printed) for row in grid.rows]
    rows += _printed_rows(printed, {row[0] for row in grid.rows})
    width = len(_COLUMNS) - (not counted)
    return Table(
        name=slug("cost", setup.dataset, setup.backbone, setup.preset, *setup.distinctions),
        title=f"Cost · {setup.title}",
        caption=_caption(setup, runs, machines, counted, printed),
        stub="Method",
        columns=_COLUMNS[:width],
        rows=tuple(replace(row, cells=row.cells[:width]) for row in rows),
        oracle=setup.oracle,
        suite="cost",
    )


def _row(grid: Grid, row: RowKey, runs: Sequence[Run], setup: Setup, printed: PublishedTable | None) -> Row:
    accuracies = summarise_percent(list(grid.at(row, "").values()))
    accuracy = Cell(accuracies, len(grid.seeds), len(grid.failed_at(row, "")))
    label = ", ".join((shown_name(row[0]), *row[1:])) + (" †" if setup.oracle else "")
    times = (_times(runs, "training", 1), _times(runs, "inference_per_image", 1000))
    return Row(label, (accuracy, *times, _parameters(runs, row[0], printed)))


def _millions(run: Run) -> float | None:
    """Parameters of all networks of a run, where they were counted."""
    count = run.facts.get("parameters")
    return count / 1e6 if run.ok and isinstance(count, int) else None


def _parameters(runs: Sequence[Run], method: str, printed: PublishedTable | None) -> Cell:
    """The mean over runs, which hardly differ: by as many heads as there are source domains, say."""
    counts = [count for run in runs if (count := _millions(run))]
    figure = printed.find(method, "", "parameters") if printed else None
    if not counts:
        return Cell(text="not recorded" if any(run.ok for run in runs) else "no finished run")
    return Cell(Summary(sum(counts) / len(counts), None, None, None, len(counts)), len(counts), published=figure)


def _printed_rows(printed: PublishedTable | None, here: set[str]) -> list[Row]:
    """Parameters that the paper printed of methods that nobody ran here."""
    if printed is None:
        return []
    known = {printed.printed_method(method) for method in here}
    none = Cell(text="not printed")
    return [
        Row(f"{method} (paper)", (none, none, none, Cell(published=figure)), published=True)
        for (method, _, _), figure in printed.figures.items()
        if method not in known and not method.startswith("Ours")
    ]


def _times(runs: Sequence[Run], name: str, scale: int) -> Cell:
    summary = summarise([scale * seconds for run in runs if run.ok and (seconds := run.seconds.get(name)) is not None])
    if summary is None:
        return Cell(text="not recorded" if any(run.ok for run in runs) else "no finished run")
    decimals = 3 if summary.mean < _SMALL else 2
    # An interval of the mean would take runs that share a training for independent ones.
    return Cell(Summary(summary.mean, summary.std, None, None, summary.n), decimals=decimals)


def _caption(
    setup: Setup, runs: Sequence[Run], machines: Sequence[str], counted: bool, printed: PublishedTable | None
) -> str:
    protocols = ", ".join(sorted({run.protocol for run in runs if run.protocol})) or "not recorded"
    finished, failed = sum(run.ok for run in runs), sum(run.failed for run in runs)
    sentences = [
        "Accuracy: mean over targets for each seed, then mean ± standard deviation over seeds.",
        "Training: seconds of all stages that a run stands on, whoever trained them, without what a selection rule "
        "tried and dropped; inference: from pixels to answer; both mean ± standard deviation over runs.",
        f"Measured on {', '.join(machines)}; jobs side by side slow each other down.",
        f"Protocol {protocols}; selection {setup.selection or 'not recorded'}; "
        f"preset {setup.preset or 'not recorded'}; {finished} runs finished, {failed} failed.",
    ]
    if counted:
        sentences.append("Parameters: of all networks that were trained, heads that serve training alone included.")
    if printed:
        sentences.append("paper: its count of parameters; for the search it says 50 to 100 ms an image on a GPU.")
    if setup.oracle:
        sentences.append(ORACLE)
    return " ".join(sentences)
