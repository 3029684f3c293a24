"""What the corruptions share: values from 0 to 1, and bytes as the published files have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

__all__ = ["Bits", "Bytes", "Corruption", "Floats", "to_bytes", "to_floats"]

Bits: TypeAlias = npt.NDArray[np.bool_]
Bytes: TypeAlias = npt.NDArray[np.uint8]
Floats: TypeAlias = npt.NDArray[np.float64]
Corruption: TypeAlias = Callable[[Floats, int, np.random.Generator], Floats]
"""Images `(n, h, w, 3)` from 0 to 1, a level from 0 to 4 and what draws, to images that may leave that range."""

_SLACK = 1e-4  # k / 255 · 255 may come out below k


def to_floats(images: Bytes) -> Floats:
    """Bytes as values from 0 to 1."""
    return images / 255.0


def to_bytes(x: Floats) -> Bytes:
    """Values cut to 0 to 1, as bytes rounded down."""
    return (np.clip(x, 0, 1) * 255 + _SLACK).astype(np.uint8)
