"""Noise: every value of its own, channels included."""

from __future__ import annotations

import numpy as np

from homefold.data.corruptions.values import Floats

__all__ = ["gaussian_noise", "impulse_noise", "shot_noise", "speckle_noise"]

_GAUSSIAN = (0.04, 0.06, 0.08, 0.09, 0.10)
_SHOT = (500, 250, 100, 75, 50)
_IMPULSE = (0.01, 0.02, 0.03, 0.05, 0.07)
_SPECKLE = (0.06, 0.1, 0.12, 0.16, 0.2)


def gaussian_noise(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Gaussian noise added to every value."""
    return x + random.normal(scale=_GAUSSIAN[level], size=x.shape)


def shot_noise(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """As many photons as the light makes likely."""
    return random.poisson(x * _SHOT[level]) / _SHOT[level]


def impulse_noise(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """A share of all values becomes 0 or 1."""
    extremes = random.random(x.shape) < 0.5
    return np.where(random.random(x.shape) < _IMPULSE[level], extremes, x)


def speckle_noise(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Gaussian noise in proportion to the value."""
    return x + x * random.normal(scale=_SPECKLE[level], size=x.shape)
