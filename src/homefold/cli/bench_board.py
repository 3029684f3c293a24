"""What a person sees of a benchmark that runs: each finished run, what is going on now, and the time left."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from homefold.cli.output import show_share
from homefold.runtime.progress import RichTask, Task

if TYPE_CHECKING:
    from homefold.evaluation.planning import Run
    from homefold.evaluation.records import RunRecord

__all__ = ["BenchBoard", "show_seconds"]


def show_seconds(seconds: float) -> str:
    """A span of time as people say it.

    >>> show_seconds(42), show_seconds(150), show_seconds(7300)
    ('42 s', '2 min 30 s', '2 h 1 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class BenchBoard:
    """A reporter for the stages, and a watcher of the runs; bars on a terminal, one line a run everywhere."""

    def __init__(self, remaining: Sequence[Run], jobs: int | None = 1) -> None:
        self.console = Console(stderr=True)
        self._left, self._jobs, self._began = list(remaining), jobs, time.monotonic()
        self._total, self._seconds = len(remaining), defaultdict[str, list[float]](list)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[facts]}", style="dim", markup=False),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._overall = self._progress.add_task("Runs", total=self._total, facts="")
        self._now = ""

    def __enter__(self) -> BenchBoard:
        self._progress.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._progress.stop()

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Task]:
        """A bar for one stage, gone when the stage is done."""
        task = self._progress.add_task(f"  {description}", total=total, facts=self._now)
        try:
            yield RichTask(self._progress, task)
        finally:
            self._progress.remove_task(task)

    def message(self, text: str) -> None:
        """What is going on now: shown beside the overall bar, since the finished run gets a line of its own."""
        self._now = text
        self._progress.update(self._overall, description=f"Runs  {text}")

    def on_run(self, run: Run, record: RunRecord) -> None:
        """A run ended: a line for it, and a new estimate."""
        self._left = [other for other in self._left if other.id != run.id]
        self._seconds[record.method].append(record.seconds.get("run", 0.0))
        left = f"about {show_seconds(self.seconds_left())} left" if self._left else "all done"
        result = show_share(record.accuracy) if record.status == "finished" else f"failed: {record.error}"
        done = self._total - len(self._left)
        self.console.print(
            f"[{done}/{self._total}] {run.title}: {result}  ({left})", markup=False, highlight=False, soft_wrap=True
        )
        self._progress.update(self._overall, completed=done, facts=left)

    def seconds_left(self) -> float:
        """The mean time of each method's finished runs, times its runs that are left, shared by the processes.

        Where nobody knows how many these are, runs go on ending as often as they did. The first run of a source trains
        what the others share, so early estimates are too high rather than too low.
        """
        if self._jobs is None:
            done = self._total - len(self._left)
            return (time.monotonic() - self._began) / max(1, done) * len(self._left)
        every = [value for values in self._seconds.values() for value in values]
        overall = sum(every) / len(every) if every else 0.0
        total = 0.0
        for run in self._left:
            own = self._seconds.get(run.method_name)
            total += sum(own) / len(own) if own else overall
        return total / min(self._jobs, max(1, len(self._left)))
