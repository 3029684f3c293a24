"""Progress that the library reports and whoever drives it shows: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["ProgressReporter", "RichReporter", "RichTask", "SilentReporter", "Task"]


class Task(Protocol):
    """One piece of work under way."""

    def advance(self, steps: int = 1, **facts: float | str) -> None:
        """`steps` more of the total are done; `facts` (loss, accuracy) are shown beside the bar."""


class ProgressReporter(Protocol):
    """What the stages are given to report to."""

    def task(self, description: str, total: int) -> AbstractContextManager[Task]:
        """A context manager around a piece of work of `total` steps; yields a `Task`."""

    def message(self, text: str) -> None:
        """A line for the person watching."""


class _SilentTask:
    def advance(self, steps: int = 1, **facts: float | str) -> None:
        pass


class SilentReporter:
    """Reports nothing: the default of the Python interface."""

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Task]:
        yield _SilentTask()

    def message(self, text: str) -> None:
        pass


class RichTask:
    """A bar that is drawn."""

    def __init__(self, progress: Progress, task_id: TaskID) -> None:
        self._progress, self._id = progress, task_id

    def advance(self, steps: int = 1, **facts: float | str) -> None:
        shown = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts.items())
        if shown:
            self._progress.update(self._id, advance=steps, facts=shown)
        else:
            self._progress.update(self._id, advance=steps)


class RichReporter:
    """Bars and lines on standard error, so that standard output stays clean for results."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Task]:
        columns = (
            TextColumn("{task.description:<16}"),
            BarColumn(bar_width=14),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            TextColumn("[dim]{task.fields[facts]}"),
        )
        with Progress(*columns, console=self.console, transient=False) as progress:
            task_id = progress.add_task(description, total=total, facts="")
            yield RichTask(progress, task_id)

    def message(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
