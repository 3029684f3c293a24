"""Images decoded beside the event loop, a bounded number at a time."""

from __future__ import annotations

import asyncio
import io
import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from homefold.data import decode_image
from homefold.data.decoding.image import Resize

__all__ = ["Decoders"]

_MOST = 8


class Decoders:
    """Threads that decode as `Homefold.predict` does, so that a file's bytes become the same pixels.

    Args:
        side: of the model's images, in pixels.
        resize: how they are brought there.
        max_megapixels: larger images are refused before they are decoded.
    """

    def __init__(self, side: int, resize: Resize, max_megapixels: float) -> None:
        self._size, self._resize, self._max_megapixels = (side, side), resize, max_megapixels
        self._threads = ThreadPoolExecutor(min(os.cpu_count() or 1, _MOST), thread_name_prefix="homefold-decode")

    async def pixels(self, content: bytes) -> np.ndarray:
        """`(side, side, 3)` uint8 of an image file; raises `BadImageError`."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._decode, content)

    def _decode(self, content: bytes) -> np.ndarray:
        return decode_image(
            io.BytesIO(content),
            size=self._size,
            resize=self._resize,
            max_megapixels=self._max_megapixels,
            name="the image",
        )

    def close(self) -> None:
        """Decode nothing more."""
        self._threads.shutdown(cancel_futures=True)
