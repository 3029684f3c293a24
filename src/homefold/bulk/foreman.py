"""Hands shards to workers and takes their answers, until nothing is left that can be done."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from typing import Any

from homefold.bulk.crew import Answered, Crew, Event, Failed, Lost, Progressed, Ready
from homefold.bulk.kinds import Kinds
from homefold.bulk.pace import Pace
from homefold.bulk.plan import Plan, Shard
from homefold.errors import DataError

__all__ = ["Foreman"]

_MOST_FAILURES = 3
_MOST_LOSSES = 5  # machines that are taken away take whatever they work on with them


class Foreman:
    """Keeps all workers of a crew busy.

    Args:
        crew: the workers.
        plan, left: the shards, and the numbers of those to do.
        kinds: is shown every worker that begins.
        pace: is told the progress.
        write: keeps the file of a shard, whole.
        tell: is told of workers that were lost.
    """

    def __init__(
        self,
        crew: Crew,
        plan: Plan,
        left: Sequence[int],
        kinds: Kinds,
        pace: Pace,
        write: Callable[[int, bytes], None],
        tell: Callable[[str], None],
    ) -> None:
        self._crew, self._kinds, self._pace, self._write, self._tell = crew, kinds, pace, write, tell
        self._fresh, self._again = plan.shards(iter(left)), deque[Shard]()
        self._first = next(plan.shards(iter([0])))  # what every kind of worker is tried with
        self._open = len(left)
        self._at_work: dict[int, Shard] = {}
        self._told: Counter[int] = Counter()
        self._probed: dict[int, dict[str, Any]] = {}
        self._idle: set[int] = set()
        self._failures: Counter[int] = Counter()
        self._losses: Counter[int] = Counter()
        self._given_up: list[str] = []
        self._in_a_row = 0

    def drive(self) -> None:
        """Answer all; raises in the end where some could not be."""
        while self._open:
            self._take(self._crew.hear())
        if self._given_up:
            many = len(self._given_up)
            which = "One shard" if many == 1 else f"{many} shards"
            raise DataError(
                f"{which} could not be answered: {self._given_up[0].rstrip('.')}. All others are done and kept; mend "
                "that and give the same command again."
            )

    def _take(self, event: Event) -> None:
        worker = event.worker
        match event:
            case Ready(_, facts) if self._kinds.knows(facts):
                self._employ(worker)
            case Ready(_, facts):
                self._probed[worker] = facts
                self._crew.ask(worker, ("probe", self._first))
            case Progressed(_, images):
                self._told[worker] += images
                self._pace.advance(images)
            case Answered(_, content, _) if worker in self._probed:
                self._kinds.add(self._probed.pop(worker), content)
                self._employ(worker)
            case Failed() if worker in self._probed:
                self._kinds.add(self._probed.pop(worker), None)
                self._employ(worker)
            case Answered(_, content, images):
                shard = self._at_work.pop(worker)
                self._write(shard.number, content)
                self._open, self._in_a_row = self._open - 1, 0
                self._pace.advance(images - self._told.pop(worker, 0), whole=True)
                self._employ(worker)
            case Failed(_, reason):
                self._try_again(worker, reason, self._failures, _MOST_FAILURES)
                self._employ(worker)
            case Lost(_, reason):
                self._probed.pop(worker, None)
                self._tell(f"A worker was lost ({reason}); another does what it was doing.")
                self._try_again(worker, reason, self._losses, _MOST_LOSSES)

    def _employ(self, worker: int) -> None:
        """Give a worker the next shard; of those that went wrong only when no other is left."""
        shard = next(self._fresh, None) or (self._again.popleft() if self._again else None)
        if shard is None:
            self._idle.add(worker)
            return
        self._at_work[worker] = shard
        self._crew.ask(worker, ("answer", shard))

    def _try_again(self, worker: int, reason: str, counted: Counter[int], most: int) -> None:
        """After a failure at a shard, or before the first; stops where nothing but failures is heard."""
        self._pace.advance(-self._told.pop(worker, 0))
        self._in_a_row += 1
        shard = self._at_work.pop(worker, None)
        if self._in_a_row >= _MOST_FAILURES * (self._crew.size + 2):
            raise DataError(
                f"Nothing is answered any more: {reason.rstrip('.')}. What is done is kept; mend that and give the "
                "same command again."
            )
        if shard is None:
            return
        counted[shard.number] += 1
        if counted[shard.number] >= most:
            self._given_up.append(reason)
            self._open -= 1
        else:
            self._again.append(shard)
            if self._idle:
                self._employ(self._idle.pop())
