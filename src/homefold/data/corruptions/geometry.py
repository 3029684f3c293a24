"""Elastic transforms, and what storing an image takes away: large pixels, JPEG."""

from __future__ import annotations

from collections.abc import Callable
from io import BytesIO

import numpy as np
from PIL import Image

from homefold.data.corruptions.blur import blurred
from homefold.data.corruptions.values import Floats, to_bytes, to_floats

__all__ = ["elastic_transform", "jpeg_compression", "pixelate"]

_ELASTIC = ((0.0, 0.0, 0.08), (0.05, 0.2, 0.07), (0.08, 0.06, 0.06), (0.1, 0.04, 0.05), (0.1, 0.03, 0.03))
"""Of the image's side: length of the displacements, the blur that smooths them, and how far three corners move."""
_JPEG_QUALITY = (80, 65, 58, 50, 40)
_PIXELATED = (0.95, 0.9, 0.85, 0.75, 0.65)


def elastic_transform(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """An affine map by three points that move, then smooth displacements."""
    n, side = x.shape[0], x.shape[1]
    length, smooth, corners = (side * part for part in _ELASTIC[level])
    middle, reach = side // 2, side // 3
    points = middle + reach * np.array([[1, 1], [1, -1], [-1, -1]], dtype=float)
    meant = points + random.uniform(-corners, corners, (n, 3, 2))
    # Where each pixel comes from: from the moved points back to the old ones.
    back = np.linalg.solve(np.concatenate([meant, np.ones((n, 3, 1))], axis=2), np.broadcast_to(points, (n, 3, 2)))
    down, across = np.meshgrid(np.arange(side), np.arange(side), indexing="ij")
    grid = np.stack([across, down, np.ones((side, side))], axis=-1)
    places = np.einsum("hwk,nkc->nhwc", grid, back)
    x = _sampled(x, places[..., 1], places[..., 0], _mirrored)
    shifts = [blurred(random.uniform(-1, 1, (n, side, side)), smooth, mode="reflect", truncate=3) for _ in range(2)]
    return _sampled(x, down + length * shifts[0], across + length * shifts[1], _reflected)


def _mirrored(places: Floats, side: int) -> Floats:
    """Indices beyond an edge, folded at its last pixel: `… 2 1 | 0 1 2 …`."""
    folded = np.abs(places) % (2 * side - 2)
    return np.where(folded < side, folded, 2 * side - 2 - folded)


def _reflected(places: Floats, side: int) -> Floats:
    """Indices beyond an edge, folded behind its last pixel: `… 1 0 | 0 1 …`."""
    folded = places % (2 * side)
    return np.where(folded < side, folded, 2 * side - 1 - folded)


def _sampled(x: Floats, rows: Floats, columns: Floats, fold: Callable[[Floats, int], Floats]) -> Floats:
    """`(n, h, w, 3)` at places `(n, h, w)` between pixels, linearly."""
    every, side = np.arange(len(x))[:, None, None], x.shape[1]
    top, left = np.floor(rows).astype(int), np.floor(columns).astype(int)
    found = np.zeros(x.shape)
    for down in (0, 1):
        for across in (0, 1):
            weight = np.abs(1 - down - (rows - top)) * np.abs(1 - across - (columns - left))
            found += weight[..., None] * x[every, fold(top + down, side), fold(left + across, side)]
    return found


def _by_pillow(x: Floats, change: Callable[[Image.Image], Image.Image]) -> Floats:
    return to_floats(np.stack([np.asarray(change(Image.fromarray(image))) for image in to_bytes(x)]))


def pixelate(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Fewer pixels, and as many as before again, by their means."""
    height, width = x.shape[1:3]
    small = (int(width * _PIXELATED[level]), int(height * _PIXELATED[level]))
    box = Image.Resampling.BOX
    return _by_pillow(x, lambda image: image.resize(small, box).resize((width, height), box))


def jpeg_compression(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Stored as JPEG and read again."""

    def stored(image: Image.Image) -> Image.Image:
        file = BytesIO()
        image.save(file, "JPEG", quality=_JPEG_QUALITY[level])
        return Image.open(file)

    return _by_pillow(x, stored)
