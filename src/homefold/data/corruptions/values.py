"""What the corruptions share: values from 0 to 1, and bytes as the published files have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

__all__ = ["Corruption", "to_bytes", "to_floats"]

Corruption: TypeAlias = Callable[[np.ndarray, int, np.random.Generator], np.ndarray]
"""Images `(n, h, w, 3)` from 0 to 1, a level from 0 to 4 and what draws, to images that may leave that range."""

_SLACK = 1e-4  # k / 255 · 255 may come out below k


def to_floats(images: np.ndarray) -> np.ndarray:
    """Bytes as values from 0 to 1."""
    return images / 255.0


def to_bytes(x: np.ndarray) -> np.ndarray:
    """Values cut to 0 to 1, as bytes rounded down."""
    return (np.clip(x, 0, 1) * 255 + _SLACK).astype(np.uint8)
