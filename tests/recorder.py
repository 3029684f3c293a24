"""A progress reporter that keeps what it was told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from homefold.runtime.progress import Task


class Recorder:
    """Keeps the facts of every epoch."""

    def __init__(self) -> None:
        self.facts: list[dict[str, float]] = []
        self.total = 0

    @contextmanager
    def task(self, description: str, total: int) -> Iterator[Task]:
        self.total = total
        yield self  # type: ignore[misc]

    def advance(self, steps: int = 1, **facts: float) -> None:
        self.facts.append(facts)

    def message(self, text: str) -> None:
        raise AssertionError(text)
