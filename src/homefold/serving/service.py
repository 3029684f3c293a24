"""What the endpoints stand on: the model with its thread, the decoders, and how much may be under way at once."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import TypeVar

import numpy as np

from homefold.data import BadImageError
from homefold.errors import HomefoldError, NotFiniteError
from homefold.model import Homefold
from homefold.serving.batching import Asked, Batcher, Outcome
from homefold.serving.bodies import HeldBytes, Holding
from homefold.serving.decoding import Decoders
from homefold.serving.explorer import Explorer
from homefold.serving.limits import Limits
from homefold.serving.metrics import Metrics
from homefold.serving.refusal import Refusal
from homefold.stages.predictions import Prediction

__all__ = ["Service"]

T = TypeVar("T")

_LONGEST_RETRY_SECONDS = 60
_log = logging.getLogger(__name__)


class Service:
    """One model at work.

    Args:
        model: fitted.
        name: what it is called on the page and in `/v1/model`; never its path.
        limits: of requests.
        explorer: labelled images that people may look at; None where there are none.
    """

    def __init__(self, model: Homefold, name: str, limits: Limits, explorer: Explorer | None = None) -> None:
        self.model, self.name, self.limits, self.explorer = model, name, limits, explorer
        self.metrics = Metrics()
        self.is_stopping = False
        self._waiting = 0
        self._held = HeldBytes(limits.held_bytes)
        preprocessing = model.config.preprocessing
        self._decoders = Decoders(preprocessing.image_size, preprocessing.resize, limits.megapixels)
        self.batcher = Batcher(
            self._outcomes, most=limits.batch, gather_seconds=limits.gather_seconds, metrics=self.metrics
        )
        self.metrics.gauge("homefold_images_waiting", "Images without an answer yet.", lambda: self._waiting)
        self.metrics.gauge("homefold_upload_bytes", "Bytes of uploads in memory.", lambda: self._held.held)

    @property
    def is_ready(self) -> bool:
        """Whether a request would be accepted now."""
        return not self.is_stopping and self._waiting < self.limits.waiting

    def warm_up(self) -> None:
        """Have the model do once what it does only once, so that the first request need not wait for it.

        In the model's own thread, because OpenMP starts threads for each thread that computes.
        """
        self.batcher.on_thread_now(self._warm_up)

    def _warm_up(self) -> None:
        side = self.model.config.preprocessing.image_size
        if self.model.device.type == "cuda":
            self.model.feature_model.get_ready(self.model.config.search)
        self.model.predict(np.zeros((1, side, side, 3), np.uint8), compare=True)

    def start(self) -> None:
        """Begin to answer; needs a running event loop."""
        self.batcher.start()
        if self.explorer is not None:
            self.explorer.start(self.model.trained, self.batcher)

    async def stop(self) -> None:
        """End the threads; requests are over by then."""
        self.is_stopping = True
        if self.explorer is not None:
            await self.explorer.stop()
        await self.batcher.stop()
        self._decoders.close()

    @contextmanager
    def holding(self) -> Iterator[Holding]:
        """Inside, a request's body may be held in memory."""
        holding = Holding(self._held)
        try:
            yield holding
        finally:
            holding.close()

    def accept(self, images: Sequence[bytes], asked: Asked) -> list[asyncio.Task[Prediction]]:
        """Begin to answer all images of a request, or raise `Refusal` where they are too many for now.

        A task raises `Refusal` for an image that gets no answer. One that is cancelled takes no more time.
        """
        self.require_room(len(images))
        deadline = asyncio.get_running_loop().time() + self.limits.answer_seconds
        return [self._begin(image, asked, deadline) for image in images]

    def require_room(self, images: int = 1) -> None:
        """Raise `Refusal` where so many images would be too many for now."""
        if self._waiting + images > self.limits.waiting:
            self.metrics.images["refused"] += images
            seconds = math.ceil(self._waiting * self.batcher.seconds_an_image)
            retry = min(max(seconds, 1), _LONGEST_RETRY_SECONDS)
            raise Refusal(
                503,
                f"the server has as many images to answer as it takes; try again in {retry} s.",
                {"Retry-After": str(retry)},
            )

    def _begin(self, image: bytes, asked: Asked, deadline: float) -> asyncio.Task[Prediction]:
        self._waiting += 1
        task = asyncio.get_running_loop().create_task(self._answer(image, asked, deadline))
        # A task that is cancelled before its first step never runs a line of its own.
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Prediction]) -> None:
        self._waiting -= 1
        outcome = "abandoned" if task.cancelled() else "answered" if task.exception() is None else "failed"
        self.metrics.images[outcome] += 1

    async def with_pixels(self, image: bytes | np.ndarray, function: Callable[[np.ndarray], T]) -> T:
        """What a function that needs the model makes of an image: a file's bytes, or pixels of the model's size.

        It raises `Refusal`, as a task of `accept` does.
        """
        async with self._at_work(1):
            pixels = await self._decoders.pixels(image) if isinstance(image, bytes) else image
            return await self.batcher.on_thread(lambda: function(pixels))

    async def with_all_pixels(self, images: Sequence[bytes], function: Callable[[np.ndarray, list[int]], T]) -> T:
        """The same for the files that can be read, and which of them these are; `Refusal` where none can."""
        async with self._at_work(len(images)):
            found = await asyncio.gather(*map(self._decoders.pixels, images), return_exceptions=True)
            rows = [row for row, each in enumerate(found) if isinstance(each, np.ndarray)]
            if not rows:
                raise Refusal(422, "none of the images can be read.")
            pixels = np.stack([np.asarray(found[row]) for row in rows])
            return await self.batcher.on_thread(lambda: function(pixels, rows))

    @asynccontextmanager
    async def _at_work(self, images: int) -> AsyncIterator[None]:
        """Inside, so many images wait, and not for ever; what goes wrong is raised as `Refusal`."""
        self.require_room(images)
        self._waiting += images
        try:
            with self._refusing():
                async with asyncio.timeout(self.limits.answer_seconds):
                    yield
        finally:
            self._waiting -= images

    async def _answer(self, image: bytes, asked: Asked, deadline: float) -> Prediction:
        with self._refusing():
            async with asyncio.timeout_at(deadline):
                with self.batcher.expecting():
                    pixels = await self._decoders.pixels(image)
                return await self.batcher.answer(pixels, asked)

    @contextmanager
    def _refusing(self) -> Iterator[None]:
        """What goes wrong with an image inside is raised as `Refusal`."""
        try:
            yield
        except Refusal:
            raise
        except BadImageError as error:
            raise Refusal(422, error.reason) from None
        except TimeoutError:
            raise Refusal(504, f"was not answered within {self.limits.answer_seconds:g} s; try again later") from None
        except NotFiniteError:
            raise Refusal(422, "gets no finite answer: numbers in it are too large for the model") from None
        except Exception as error:
            _log.exception("an image was not answered")
            told = f" ({str(error).rstrip('.')})" if isinstance(error, HomefoldError) else ""
            raise Refusal(500, f"could not be answered{told}; the server's own messages say why") from None

    def _outcomes(self, pixels: np.ndarray, asked: Asked) -> Sequence[Outcome]:
        """In the model's thread. An answer that is not finite spoils no other: the rest is computed without it."""
        outcomes: dict[int, Outcome] = {}
        left = list(range(len(pixels)))
        while left:
            try:
                found = self.model.predict(pixels[left], projected=asked.projected, compare=asked.compare)
            except NotFiniteError as error:
                outcomes[left.pop(error.row)] = error
                continue
            outcomes |= zip(left, found, strict=True)
            break
        return [outcomes[i] for i in range(len(pixels))]
