"""Blurs: out of focus, through glass, in motion, while zooming."""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy import ndimage  # type: ignore[import-untyped]

from homefold.data.corruptions.values import Floats, to_bytes, to_floats

__all__ = ["blurred", "defocus_blur", "gaussian_blur", "glass_blur", "motion_blur", "moved", "zoom_blur", "zoomed"]

_GAUSSIAN = (0.4, 0.6, 0.7, 0.8, 1.0)
_GLASS = ((0.05, 1), (0.25, 1), (0.4, 1), (0.25, 2), (0.4, 2))
"""Standard deviation, and how often every pixel is displaced by one at most."""
_DEFOCUS = ((0.3, 0.4), (0.4, 0.5), (0.5, 0.6), (1.0, 0.2), (1.5, 0.1))
"""Radius of the disk, and the standard deviation of its edge."""
_MOTION = ((6, 1.0), (6, 1.5), (6, 2.0), (8, 2.0), (9, 2.5))
"""Radius of the window, and the standard deviation of its half of a Gaussian."""
_ZOOM_END = (1.06, 1.11, 1.16, 1.21, 1.26)


def blurred(x: Floats, sigma: float, *, mode: str = "nearest", truncate: float = 4.0) -> Floats:
    """A Gaussian blur over the height and width of `(n, h, w, …)`."""
    along = (0.0, sigma, sigma, *(0.0,) * (x.ndim - 3))
    found: Floats = ndimage.gaussian_filter(x, along, mode=mode, truncate=truncate)
    return found


def gaussian_blur(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """A Gaussian blur."""
    return blurred(x, _GAUSSIAN[level])


def glass_blur(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """A blur, pixels that show a neighbour's colour, and the blur again.

    The published code means to swap the two pixels; what it does is to copy, which is done here.
    """
    sigma, times = _GLASS[level]
    pixels = to_bytes(blurred(x, sigma))
    n, height, width, _ = pixels.shape
    every = np.arange(n)
    for _ in range(times):
        shifts = random.integers(-1, 1, (height, width, 2, n))
        for row in range(height - 1, 1, -1):
            for column in range(width - 1, 1, -1):
                across, down = shifts[row, column]
                pixels[:, row, column] = pixels[every, row + down, column + across]
    return blurred(to_floats(pixels), sigma)


@cache
def _disk(radius: float, edge: float) -> Floats:
    """A disk of sum 1 whose edge is softened by a Gaussian of three taps."""
    reach = np.arange(-int(radius) - 1, int(radius) + 2)
    disk = (reach[:, None] ** 2 + reach**2 <= radius**2).astype(float)
    taps = np.exp(-np.array([1.0, 0.0, 1.0]) / (2 * edge**2))
    taps /= taps.sum()
    soft: Floats = ndimage.correlate(disk / disk.sum(), np.outer(taps, taps), mode="constant")
    return soft


def defocus_blur(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """A blur by a disk."""
    found: Floats = ndimage.correlate(x, _disk(*_DEFOCUS[level])[None, :, :, None], mode="mirror")
    return found


def moved(x: Floats, radius: int, sigma: float, degrees: Floats) -> Floats:
    """A blur along half a line, each of the images `(n, h, w, …)` in its own direction, as ImageMagick does it."""
    n, height, width = x.shape[:3]
    distances = np.arange(2 * radius + 1)
    weights = np.exp(-(distances**2) / (2 * sigma**2))
    angles = np.deg2rad(degrees)[:, None]
    down = np.ceil(distances * np.sin(angles) - 0.5).astype(int)
    across = np.ceil(distances * np.cos(angles) - 0.5).astype(int)
    found = np.zeros(x.shape)
    for i, weight in enumerate(weights / weights.sum()):
        rows = np.clip(np.arange(height) + down[:, i, None], 0, height - 1)
        columns = np.clip(np.arange(width) + across[:, i, None], 0, width - 1)
        found += weight * x[np.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
    return np.rint(found * 255) / 255


def motion_blur(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """The image moved, more or less across."""
    return moved(x, *_MOTION[level], random.uniform(-45, 45, len(x)))


@cache
def _zoom_matrix(side: int, factor: float) -> Floats:
    """`(side, side)`: linear interpolation of the middle part of a line, enlarged and cut to its length."""
    part = int(np.ceil(side / factor))
    start = (side - part) // 2
    enlarged = ndimage.zoom(np.eye(part), (factor, 1), order=1)
    trim = (len(enlarged) - side) // 2
    matrix = np.zeros((side, side))
    matrix[:, start : start + part] = enlarged[trim : trim + side]
    return matrix


def zoomed(x: Floats, factor: float) -> Floats:
    """The middle of images `(…, h, w)`, enlarged."""
    rows, columns = (_zoom_matrix(side, factor) for side in x.shape[-2:])
    found: Floats = rows @ x @ columns.T
    return found


def zoom_blur(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """The mean of the image and of what it shows as it is enlarged."""
    factors = np.arange(1, _ZOOM_END[level], 0.01)
    planes = np.ascontiguousarray(np.moveaxis(x, -1, 1))
    mean = (planes + sum(zoomed(planes, float(factor)) for factor in factors)) / (len(factors) + 1)
    return np.moveaxis(mean, 1, -1)
