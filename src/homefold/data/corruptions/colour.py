"""Changes of brightness, contrast and saturation, the same for every pixel of an image."""

from __future__ import annotations

import numpy as np

from homefold.data.corruptions.values import Floats

__all__ = ["brightness", "contrast", "saturate"]

_BRIGHTNESS = (0.05, 0.1, 0.15, 0.2, 0.3)
_CONTRAST = (0.75, 0.5, 0.4, 0.3, 0.15)
_SATURATION = ((0.3, 0.0), (0.1, 0.0), (1.5, 0.0), (2.0, 0.1), (2.5, 0.2))
_RED = np.array([0.0, 1.0, 1.0])


def brightness(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """More value in hue, saturation and value."""
    value: Floats = x.max(axis=-1, keepdims=True)
    more = np.clip(value + _BRIGHTNESS[level], 0, 1)
    return np.where(value > 0, x * more / np.maximum(value, 1e-12), more)


def contrast(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Nearer to the image's mean colour."""
    mean: Floats = x.mean(axis=(1, 2), keepdims=True)
    return mean + (x - mean) * _CONTRAST[level]


def saturate(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Another saturation in hue, saturation and value; grey has the hue of red."""
    factor, offset = _SATURATION[level]
    value: Floats = x.max(axis=-1, keepdims=True)
    least: Floats = x.min(axis=-1, keepdims=True)
    chroma = value - least
    saturation = chroma / np.maximum(value, 1e-12)
    away = np.where(chroma > 0, (value - x) / np.maximum(chroma, 1e-12), _RED)
    return value * (1 - np.clip(saturation * factor + offset, 0, 1) * away)
