"""Progress that the library reports and whoever drives it shows: bars on a terminal, nothing elsewhere."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from rich import progress
from rich.console import Console

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


class SilentReporter:
    """Reports nothing: the default of the Python interface."""

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Task]:
        yield self

    def advance(self, steps: int = 1, **facts: float | str) -> None:
        pass

    def message(self, text: str) -> None:
        pass


class RichTask:
    """A bar that is drawn."""

    def __init__(self, bars: progress.Progress, task_id: progress.TaskID) -> None:
        self._bars, self._id = bars, task_id

    def advance(self, steps: int = 1, **facts: float | str) -> None:
        shown = "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in facts.items())
        fields: dict[str, Any] = {"facts": shown} if shown else {}
        self._bars.update(self._id, advance=steps, **fields)


class RichReporter:
    """Bars and lines on standard error, so that standard output stays clean for results."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True)

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Task]:
        columns = (
            progress.TextColumn("{task.description:<16}"),
            progress.BarColumn(bar_width=14),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("[dim]{task.fields[facts]}"),
        )
        with progress.Progress(*columns, console=self.console) as bars:
            yield RichTask(bars, bars.add_task(description, total=total, facts=""))

    def message(self, text: str) -> None:
        self.console.print(text, highlight=False, markup=False, soft_wrap=True)
