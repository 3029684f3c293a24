"""The batcher: what is computed together, and who waits for whom."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest

from homefold.serving.batching import Asked, Batcher, Outcome
from homefold.serving.metrics import Metrics
from homefold.stages.predictions import Prediction


class Recorder:
    """Answers an image with its number, and remembers what came together."""

    def __init__(self) -> None:
        self.batches: list[tuple[list[int], Asked]] = []
        self.threads: set[int] = set()
        self.open = threading.Event()
        self.open.set()

    def __call__(self, pixels: np.ndarray, asked: Asked) -> Sequence[Outcome]:
        self.open.wait(10)
        numbers = [int(value) for value in pixels.ravel()]
        self.batches.append((numbers, asked))
        self.threads.add(threading.get_ident())
        return [ValueError(f"no {n}") if n == 13 else answer(n) for n in numbers]


def answer(number: int) -> Prediction:
    return Prediction(str(number), {str(number): 1.0}, 0.0, 0.0, 0, "encoder", 0.0)


def image(number: int) -> np.ndarray:
    return np.full((1,), number)


def batching(recorder: Recorder, gather_seconds: float = 0.0, most: int = 8) -> Batcher:
    return Batcher(recorder, most=most, gather_seconds=gather_seconds, metrics=Metrics())


def run(work, batcher: Batcher):
    async def all_of_it():
        batcher.start()
        try:
            return await asyncio.wait_for(work(), 10)
        finally:
            await batcher.stop()

    return asyncio.run(all_of_it())


def test_what_gathers_while_the_model_computes_is_the_next_batch_and_no_larger_than_allowed() -> None:
    recorder = Recorder()
    batcher = batching(recorder)

    async def work():
        recorder.open.clear()
        first = asyncio.create_task(batcher.answer(image(0), Asked()))
        await asyncio.sleep(0.05)
        others = [asyncio.create_task(batcher.answer(image(n), Asked())) for n in range(1, 13)]
        await asyncio.sleep(0.01)
        recorder.open.set()
        return [found.label for found in await asyncio.gather(first, *others)]

    assert run(work, batcher) == [str(n) for n in range(13)]
    assert [numbers for numbers, _ in recorder.batches] == [[0], list(range(1, 9)), list(range(9, 13))]
    assert len(recorder.threads) == 1


def test_images_that_ask_for_different_things_are_never_computed_together_and_keep_their_order() -> None:
    recorder = Recorder()
    batcher = batching(recorder)
    plain, other = Asked(), Asked(projected=False)

    async def work():
        recorder.open.clear()
        tasks = [asyncio.create_task(batcher.answer(image(0), plain))]
        await asyncio.sleep(0.05)
        tasks += [asyncio.create_task(batcher.answer(image(n), other if n % 2 else plain)) for n in range(1, 7)]
        await asyncio.sleep(0.01)
        recorder.open.set()
        await asyncio.gather(*tasks)

    run(work, batcher)
    assert recorder.batches == [([0], plain), ([1, 3, 5], other), ([2, 4, 6], plain)]


def test_one_client_alone_waits_for_nobody() -> None:
    recorder = Recorder()
    batcher = batching(recorder, gather_seconds=5.0)

    async def work():
        began = time.perf_counter()
        await batcher.answer(image(1), Asked())
        return time.perf_counter() - began

    assert run(work, batcher) < 1


def test_an_image_on_its_way_is_waited_for_but_not_for_long() -> None:
    recorder = Recorder()
    batcher = batching(recorder, gather_seconds=5.0)

    async def arriving_later():
        with batcher.expecting():
            await asyncio.sleep(0.05)
        return await batcher.answer(image(2), Asked())

    async def work():
        late = asyncio.create_task(arriving_later())
        await asyncio.sleep(0)
        await asyncio.gather(batcher.answer(image(1), Asked()), late)

    run(work, batcher)
    assert [sorted(numbers) for numbers, _ in recorder.batches] == [[1, 2]]

    async def impatient():
        with impatient_batcher.expecting():
            return await impatient_batcher.answer(image(3), Asked())

    impatient_batcher = batching(recorder, gather_seconds=0.02)
    assert run(impatient, impatient_batcher).label == "3"


def test_an_image_whose_client_went_away_is_not_computed() -> None:
    recorder = Recorder()
    batcher = batching(recorder)

    async def work():
        recorder.open.clear()
        first = asyncio.create_task(batcher.answer(image(0), Asked()))
        await asyncio.sleep(0.05)
        gone, stays = (asyncio.create_task(batcher.answer(image(n), Asked())) for n in (1, 2))
        await asyncio.sleep(0.01)
        gone.cancel()
        recorder.open.set()
        await asyncio.gather(first, stays)
        with pytest.raises(asyncio.CancelledError):
            await gone

    run(work, batcher)
    assert [numbers for numbers, _ in recorder.batches] == [[0], [2]]


def test_what_goes_wrong_with_one_image_or_with_all_reaches_who_asked() -> None:
    recorder = Recorder()
    batcher = batching(recorder)

    async def work():
        found = await asyncio.gather(*(batcher.answer(image(n), Asked()) for n in (12, 13, 14)), return_exceptions=True)
        return [str(item) if isinstance(item, Exception) else item.label for item in found]

    assert run(work, batcher) == ["12", "no 13", "14"]

    def fails(pixels: np.ndarray, asked: Asked) -> Sequence[Outcome]:
        raise RuntimeError("out of order")

    failing = Batcher(fails, most=8, gather_seconds=0.0, metrics=Metrics())

    async def fail_twice():
        for _ in range(2):  # the loop outlives it
            with pytest.raises(RuntimeError, match="out of order"):
                await failing.answer(image(1), Asked())

    run(fail_twice, failing)
