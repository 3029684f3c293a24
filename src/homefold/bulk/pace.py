"""How far a job is, how fast, and how long it will still take: a bar, and a line a minute where no bar can be seen."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import timedelta
from typing import Self

from homefold.runtime.progress import ProgressReporter

__all__ = ["Pace"]

_SECONDS_BETWEEN_LINES = 60.0


class Pace:
    """The progress of a job: for `with`.

    Args:
        reporter: draws a bar.
        tell: is told a line now and then.
        total: how much there is to do.
        what: `"images"`, or `"tars"` where nobody knows how many images there are.
        clock: tells seconds.
    """

    def __init__(
        self,
        reporter: ProgressReporter,
        tell: Callable[[str], None],
        total: int,
        what: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reporter, self._tell, self._clock = reporter, tell, clock
        self._total, self._what = total, what
        self._images = self._done = 0
        self._began = self._told = clock()
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._bar = self._stack.enter_context(self._reporter.task("Answering", total=self._total))
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def advance(self, images: int, *, whole: bool = False) -> None:
        """So many images more, or fewer where a worker was lost; `whole` where they complete a shard."""
        now = self._clock()
        if not self._images:
            self._began = now  # workers took a while to begin
        self._images += images
        steps = images if self._what == "images" else int(whole)
        self._done += steps
        rate = f"{self._rate(now):,.0f}"
        self._bar.advance(steps, **{"images/s": rate})
        if now - self._told >= _SECONDS_BETWEEN_LINES:
            self._told = now
            self._tell(self.line(now))

    def _rate(self, now: float) -> float:
        return self._images / max(now - self._began, 1e-3)

    def line(self, now: float) -> str:
        """How far it is, in words."""
        speed = self._done / max(now - self._began, 1e-3)
        left = f", {timedelta(seconds=round((self._total - self._done) / speed))} left" if speed > 0 else ""
        return f"{self._done:,} of {self._total:,} {self._what}, {self._rate(now):,.0f} images/s{left}"
