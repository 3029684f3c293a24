"""Pixels as an image file: lossless where they are few, else a small JPEG."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

__all__ = ["picture_file", "picture_format"]

_LOSSLESS_BELOW_PX = 64
_JPEG_QUALITY = 85


def picture_format(longer_px: int) -> str:
    """PNG or JPEG, by the longer side.

    >>> picture_format(32), picture_format(224)
    ('PNG', 'JPEG')
    """
    return "PNG" if longer_px < _LOSSLESS_BELOW_PX else "JPEG"


def picture_file(pixels: np.ndarray) -> bytes:
    """The file of an image `(height, width, 3)` uint8."""
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, picture_format(max(pixels.shape[:2])), quality=_JPEG_QUALITY)
    return stream.getvalue()
