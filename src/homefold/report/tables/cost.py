"""What each method costs beside what it is worth: accuracy, seconds of training, milliseconds an image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from homefold.report.grid import Grid, RowKey, lay_out
from homefold.report.names import shown_name
from homefold.report.runs import SETTINGS, Run, RunFolder, Setup, slug
from homefold.report.selecting import of_kind, once
from homefold.report.statistics import Summary, summarise, summarise_percent
from homefold.report.tables.group import ORACLE
from homefold.report.tables.table import Cell, Row, Table

__all__ = ["cost_tables"]

_COLUMNS = ("Accuracy, %", "Training, s", "Inference, ms per image")
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
    rows = tuple(_row(grid, row, [run for run in runs if key(run) == row], setup) for row in grid.rows)
    return Table(
        name=slug("cost", setup.dataset, setup.backbone, setup.preset, *setup.distinctions),
        title=f"Cost · {setup.title}",
        caption=_caption(setup, runs, machines),
        stub="Method",
        columns=_COLUMNS,
        rows=rows,
        oracle=setup.oracle,
        suite="cost",
    )


def _row(grid: Grid, row: RowKey, runs: Sequence[Run], setup: Setup) -> Row:
    accuracies = summarise_percent(list(grid.at(row, "").values()))
    accuracy = Cell(accuracies, len(grid.seeds), len(grid.failed_at(row, "")))
    label = ", ".join((shown_name(row[0]), *row[1:])) + (" †" if setup.oracle else "")
    return Row(label, (accuracy, _times(runs, "training", 1), _times(runs, "inference_per_image", 1000)))


def _times(runs: Sequence[Run], name: str, scale: int) -> Cell:
    summary = summarise([scale * seconds for run in runs if run.ok and (seconds := run.seconds.get(name)) is not None])
    if summary is None:
        return Cell(text="not recorded" if any(run.ok for run in runs) else "no finished run")
    decimals = 3 if summary.mean < _SMALL else 2
    # An interval of the mean would take runs that share a training for independent ones.
    return Cell(Summary(summary.mean, summary.std, None, None, summary.n), decimals=decimals)


def _caption(setup: Setup, runs: Sequence[Run], machines: Sequence[str]) -> str:
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
    if setup.oracle:
        sentences.append(ORACLE)
    return " ".join(sentences)
