"""What a decoder process does: take batches of images from a pipe, leave their pixels in shared memory, answer.

`decoding/pool.py` starts it. It imports no more than decoding needs (no torch), and ends by itself when its standard
input is closed, in the middle of an image too: whatever ends the process that started it ends it as well.
"""

from __future__ import annotations

import mmap
import os
import pickle
import threading
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import NamedTuple, NoReturn

import numpy as np

from homefold.data.archives import ArchiveImage, FileImage
from homefold.data.decoding.image import Resize, decode_by_pillow_alone

__all__ = ["Answer", "Batch", "PackedSource", "main", "packed"]

PackedSource = str | ArchiveImage
"""What travels for an image: of a plain file its path alone, which is quicker to pack than a `FileImage`."""

Answer = list[bool]
"""For each image of a batch whether its pixels are there."""


class Batch(NamedTuple):
    """Images to decode.

    Args:
        sources, size, resize, max_megapixels: what to decode, and as in `decode_image`.
        offset: where in the shared memory the pixels go, one image after the other.
        memory_bytes: how large the shared memory is by now.
        folder: what relative paths start from; None where there is no such folder any more.
    """

    sources: list[PackedSource]
    size: tuple[int, int]
    resize: Resize
    max_megapixels: float
    offset: int
    memory_bytes: int
    folder: str | None


def packed(source: FileImage | ArchiveImage) -> PackedSource:
    """The source as it travels."""
    return source.path if isinstance(source, FileImage) else source


def main(memory: int, answers: int, idle_seconds: float) -> NoReturn:
    """Decode until standard input is closed, or nothing has come for a while."""
    decode_by_pillow_alone()
    batches: SimpleQueue[Batch] = SimpleQueue()
    # A thread of its own takes them in: the other side never waits to be heard, and the end is noticed at once.
    threading.Thread(target=_take_in, args=(batches,), daemon=True).start()
    mapped: mmap.mmap | None = None
    while True:
        try:
            batch = batches.get(timeout=idle_seconds)
        except Empty:
            os._exit(0)
        if mapped is None or len(mapped) != batch.memory_bytes:
            mapped = mmap.mmap(memory, batch.memory_bytes)
        answer = pickle.dumps(_decode(batch, mapped))
        try:
            with os.fdopen(answers, "wb", closefd=False) as stream:
                stream.write(answer)
        except BrokenPipeError:
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


def _decode(batch: Batch, memory: mmap.mmap) -> Answer:
    try:
        if batch.folder is not None and batch.folder != os.getcwd():
            os.chdir(batch.folder)
    except OSError:
        return [False] * len(batch.sources)
    shape = (len(batch.sources), *batch.size, 3)
    pixels = np.ndarray(shape, np.uint8, buffer=memory, offset=batch.offset)
    return [_decode_one(source, batch, place) for source, place in zip(batch.sources, pixels, strict=True)]


def _decode_one(packed_source: PackedSource, batch: Batch, place: np.ndarray) -> bool:
    source = FileImage(Path(packed_source)) if isinstance(packed_source, str) else packed_source
    try:
        place[:] = source.pixels(size=batch.size, resize=batch.resize, max_megapixels=batch.max_megapixels)
    # Whoever asked tries again, under its own settings of Pillow, and meets it where it can be told.
    except Exception:
        return False
    return True
