"""One thread for the model, which answers what has gathered from all requests."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from homefold.serving.metrics import Metrics
from homefold.stages.predictions import Prediction

__all__ = ["Asked", "Batcher", "Outcome"]

T = TypeVar("T")

Outcome = Prediction | Exception
"""The answer to an image, or what went wrong with it."""


@dataclass(frozen=True)
class Asked:
    """What images must have in common to be computed together.

    Args:
        projected: bring each feature to the source manifold first.
        compare: tell the label without projection too.
    """

    projected: bool = True
    compare: bool = False


@dataclass(eq=False)
class _Waiting:
    pixels: np.ndarray
    asked: Asked
    outcome: asyncio.Future[Prediction] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Batcher:
    """Gathers images and hands them to the model together.

    An image waits for others only while some are known to be on their way, and only a moment: one client alone waits
    for nothing. While the model computes, the next batch gathers by itself. An image whose client went away is dropped.

    Args:
        answer: images `(n, side, side, 3)` to an outcome each; called in one thread, the same every time.
        most: images in a batch.
        gather_seconds: how long the first of a batch waits for others.
        metrics: is told of each batch.
    """

    def __init__(
        self,
        answer: Callable[[np.ndarray, Asked], Sequence[Outcome]],
        *,
        most: int,
        gather_seconds: float,
        metrics: Metrics,
    ) -> None:
        self._answer, self._most, self._gather_seconds, self._metrics = answer, most, gather_seconds, metrics
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="homefold-model")
        self._waiting: deque[_Waiting] = deque()
        self._on_their_way = 0
        self._changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.seconds_an_image = 0.0

    def start(self) -> None:
        """Begin to answer; needs a running event loop."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        """End after the batch that is computed now; requests are over by then."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        for item in self._waiting:
            item.outcome.cancel()
        self._thread.shutdown()

    async def on_thread(self, function: Callable[[], T]) -> T:
        """What a function gives that needs the model, computed in the model's thread between two batches."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, function)

    def on_thread_now(self, function: Callable[[], T]) -> T:
        """The same for who has no event loop yet."""
        return self._thread.submit(function).result()

    @contextmanager
    def expecting(self) -> Iterator[None]:
        """Inside, an image is on its way, and a batch may wait a moment for it."""
        self._on_their_way += 1
        try:
            yield
        finally:
            self._on_their_way -= 1
            self._changed.set()

    async def answer(self, pixels: np.ndarray, asked: Asked) -> Prediction:
        """The answer to an image `(side, side, 3)`."""
        item = _Waiting(pixels, asked)
        self._waiting.append(item)
        self._changed.set()
        return await item.outcome

    async def _run(self) -> None:
        while True:
            await self._gathered()
            batch = self._taken()
            if batch:
                await self._compute(batch)

    async def _gathered(self) -> None:
        """Return when there is something to compute and nothing more to wait for."""
        while not self._waiting:
            self._changed.clear()
            await self._changed.wait()
        try:
            async with asyncio.timeout(self._gather_seconds):
                while self._on_their_way and len(self._waiting) < self._most:
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    def _taken(self) -> list[_Waiting]:
        """The first that wait and those after it that ask the same, in order; the others stay."""
        batch: list[_Waiting] = []
        others: list[_Waiting] = []
        while self._waiting and len(batch) < self._most:
            item = self._waiting.popleft()
            if item.outcome.done():
                continue
            fits = not batch or item.asked == batch[0].asked
            (batch if fits else others).append(item)
        self._waiting.extendleft(reversed(others))
        return batch

    async def _compute(self, batch: Sequence[_Waiting]) -> None:
        pixels, asked = np.stack([item.pixels for item in batch]), batch[0].asked
        began = time.perf_counter()
        try:
            outcomes = await self.on_thread(lambda: self._answer(pixels, asked))
        except Exception as error:
            outcomes = [error] * len(batch)
        seconds = time.perf_counter() - began
        self.seconds_an_image = seconds / len(batch)
        self._metrics.batch_images.add(len(batch))
        self._metrics.batch_seconds.add(seconds)
        for item, outcome in zip(batch, outcomes, strict=True):
            if item.outcome.done():  # its client went away meanwhile
                continue
            if isinstance(outcome, Exception):
                item.outcome.set_exception(outcome)
            else:
                item.outcome.set_result(outcome)
