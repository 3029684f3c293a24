"""What a decoder process does: take batches of images from standard input, and give their pixels on standard output.

`decoding/pool.py` starts it. It imports no more than decoding needs (no torch), and ends by itself when its standard
input is closed, in the middle of an image too: whatever ends the process that started it ends it as well.
"""

from __future__ import annotations

import os
import pickle
import threading
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import NamedTuple, NoReturn

from homefold.data.decoding.image import Resize
from homefold.data.index import Decodable

__all__ = ["LEFT", "PIXELS", "Batch", "main"]

PIXELS, LEFT = b"\1", b"\0"
"""What comes back for each image of a batch: this and its pixels, or that it is left to whoever asked."""


class Batch(NamedTuple):
    """Images to decode, and how."""

    sources: Sequence[Decodable]
    size: tuple[int, int]
    resize: Resize
    max_megapixels: float
    folder: str | None
    """What relative paths start from; None where there is no such folder any more."""


def main(idle_seconds: float) -> NoReturn:
    """Decode until standard input is closed, or nothing has come for a while."""
    answers = os.dup(1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    batches: SimpleQueue[Batch] = SimpleQueue()
    # A thread of its own takes them in: the other side never waits to be heard, and the end is noticed at once.
    threading.Thread(target=_take_in, args=(batches,), daemon=True).start()
    try:
        with os.fdopen(answers, "wb") as stream:
            while True:
                batch = batches.get(timeout=idle_seconds)
                for source in batch.sources:
                    stream.write(_decoded(source, batch))
                stream.flush()
    except (Empty, BrokenPipeError):
        os._exit(0)


def _take_in(batches: SimpleQueue[Batch]) -> None:
    code = 1
    try:
        with os.fdopen(0, "rb", closefd=False) as stream:
            while True:
                batches.put(pickle.load(stream))
    # The second when the other side ended in the middle of a word.
    except (EOFError, pickle.UnpicklingError):
        code = 0
    finally:
        os._exit(code)


def _decoded(source: Decodable, batch: Batch) -> bytes:
    try:
        if batch.folder is not None and batch.folder != os.getcwd():
            os.chdir(batch.folder)
        pixels = source.pixels(size=batch.size, resize=batch.resize, max_megapixels=batch.max_megapixels)
    # Whoever asked tries again, under its own settings of Pillow, and meets it where it can be told.
    except Exception:
        return LEFT
    return PIXELS + pixels.tobytes()
