"""Snow, frost, fog, and drops of water or mud on the lens."""

from __future__ import annotations

import numpy as np
from scipy import ndimage  # type: ignore[import-untyped]

from homefold.data.corruptions.blur import blurred, moved, zoomed
from homefold.data.corruptions.values import Bits, Bytes, Floats, to_bytes, to_floats

__all__ = ["fog", "fractal", "frost", "snow", "spatter"]

_FOG = ((0.2, 3.0), (0.5, 3.0), (0.75, 2.5), (1.0, 2.0), (1.5, 1.75))
"""How thick it is, and how fast its finer parts get weaker."""
_FROST = ((1.0, 0.2), (1.0, 0.3), (0.9, 0.4), (0.85, 0.4), (0.75, 0.45))
"""Share of the image and of the frost."""
_SNOW = (
    (0.1, 0.2, 1.0, 0.6, 8, 3, 0.95),
    (0.1, 0.2, 1.0, 0.5, 10, 4, 0.9),
    (0.15, 0.3, 1.75, 0.55, 10, 4, 0.9),
    (0.25, 0.3, 2.25, 0.6, 12, 6, 0.85),
    (0.3, 0.3, 1.25, 0.65, 14, 12, 0.8),
)
"""Mean and deviation of the flakes, their enlargement and threshold, their motion, and the share of the image."""
_SPATTER = (
    (0.62, 0.1, 0.7, 0.7, 0.5, "water"),
    (0.65, 0.1, 0.8, 0.7, 0.5, "water"),
    (0.65, 0.3, 1.0, 0.69, 0.5, "water"),
    (0.65, 0.1, 0.7, 0.69, 0.6, "mud"),
    (0.65, 0.1, 0.5, 0.68, 0.6, "mud"),
)
"""Mean and deviation of the drops, their blur and threshold, the strength of water or the blur of mud."""
_WATER: Floats = np.array([175, 238, 238]) / 255
_MUD: Floats = np.array([63, 42, 20]) / 255
_ICE: Floats = np.array([0.86, 0.95, 1.0])
_GREY: Floats = np.array([0.299, 0.587, 0.114])
_LEAST_MUD = 0.8
_FARTHEST = 20.0
_RELIEF = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def fractal(n: int, side: int, decay: float, random: np.random.Generator) -> Floats:
    """`(n, side, side)` clouds from 0 to 1 by the diamond-square rule on a torus; side is a power of two."""
    map_ = np.zeros((n, side, side))
    step, strength = side, 100.0

    def around(sums: Floats) -> Floats:
        return sums / 4 + strength * random.uniform(-strength, strength, sums.shape)

    while step >= 2:
        half = step // 2
        corners = map_[:, ::step, ::step]
        rows = corners + np.roll(corners, -1, axis=1)
        middles = around(rows + np.roll(rows, -1, axis=2))
        map_[:, half::step, half::step] = middles
        map_[:, ::step, half::step] = around(
            middles + np.roll(middles, 1, axis=1) + corners + np.roll(corners, -1, axis=2)
        )
        map_[:, half::step, ::step] = around(
            middles + np.roll(middles, 1, axis=2) + corners + np.roll(corners, -1, axis=1)
        )
        step, strength = half, strength / decay
    map_ -= map_.min(axis=(1, 2), keepdims=True)
    highest: Floats = map_.max(axis=(1, 2), keepdims=True)
    return map_ / highest


def fog(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Clouds in front of the image, as bright as before."""
    thick, decay = _FOG[level]
    brightest: Floats = x.max(axis=(1, 2, 3), keepdims=True)
    clouds = fractal(len(x), x.shape[1], decay, random)[..., None]
    return (x + thick * clouds) * brightest / (brightest + thick)


def frost(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Ice in front of the image. CIFAR-10-C took photographs of frost; here it is drawn: veins on clouded glass."""
    image, ice = _FROST[level]
    side = x.shape[1]
    veins: Floats = np.max([1 - np.abs(2 * fractal(len(x), side, 1.6, random) - 1) for _ in range(2)], axis=0) ** 6
    glass = 0.25 + 0.45 * fractal(len(x), side, 2.0, random)
    return image * x + ice * np.clip(glass + 0.5 * veins, 0, 1)[..., None] * _ICE


def snow(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Flakes that fall, in front of a paler image."""
    mean, deviation, factor, least, radius, sigma, share = _SNOW[level]
    flakes = zoomed(random.normal(mean, deviation, x.shape[:3]), factor)
    flakes = to_floats(to_bytes(np.where(flakes < least, 0, flakes)))
    flakes = moved(flakes, int(radius), sigma, random.uniform(-135, -45, len(x)))[..., None]
    pale: Floats = np.maximum(x, (x @ _GREY)[..., None] * 1.5 + 0.5)
    return share * x + (1 - share) * pale + flakes + np.rot90(flakes, 2, axes=(1, 2))


def spatter(x: Floats, level: int, random: np.random.Generator) -> Floats:
    """Drops of water, or of mud where it is worse."""
    mean, deviation, sigma, least, last, kind = _SPATTER[level]
    drops = blurred(random.normal(mean, deviation, x.shape[:3]), float(sigma))
    drops[drops < least] = 0
    if kind == "mud":
        mud = blurred((drops > least).astype(float), float(last))
        mud = np.where(mud < _LEAST_MUD, 0, mud)[..., None]
        return x * (1 - mud) + _MUD * mud
    water = np.stack([_water(layer, edges) for layer, edges in zip(to_bytes(drops), _edges(drops), strict=True)])
    return x + float(last) * water[..., None] * _WATER


def _edges(layers: Floats, low: float = 50, high: float = 150) -> Bits:
    """`(n, h, w)`: ridges of the gradient above `high`, and those above `low` that touch them (Canny)."""
    bytes_ = to_bytes(layers).astype(float)
    down, across = (ndimage.correlate1d(bytes_, [-1, 0, 1], axis=axis, mode="nearest") for axis in (1, 2))
    down = ndimage.correlate1d(down, [1, 2, 1], axis=2, mode="nearest")
    across = ndimage.correlate1d(across, [1, 2, 1], axis=1, mode="nearest")
    size = np.abs(down) + np.abs(across)
    steps = np.round(np.arctan2(down, across) / (np.pi / 4)).astype(int) % 4
    beside = np.pad(size, ((0, 0), (1, 1), (1, 1)))
    height, width = size.shape[1:]
    ridge = np.zeros(size.shape, dtype=bool)
    for step, (dy, dx) in enumerate(((0, 1), (1, 1), (1, 0), (1, -1))):
        ahead = beside[:, 1 + dy : 1 + dy + height, 1 + dx : 1 + dx + width]
        behind = beside[:, 1 - dy : 1 - dy + height, 1 - dx : 1 - dx + width]
        ridge |= (steps == step) & (size > behind) & (size >= ahead)
    in_image = np.zeros((3, 3, 3), dtype=bool)
    in_image[1] = True
    found: Bits = ndimage.binary_propagation(ridge & (size > high), in_image, ridge & (size > low))
    return found


def _water(drops: Bytes, edges: Bits) -> Floats:
    """`(h, w)` from 0 to 1: how much water shows, as in a relief of the distance to the edge of a drop."""
    far = ndimage.distance_transform_edt(~edges) if edges.any() else np.full(edges.shape, _FARTHEST)
    far = ndimage.uniform_filter(np.minimum(far, _FARTHEST), 3, mode="mirror").astype(np.uint8)
    relief = ndimage.correlate(_equalised(far).astype(float), _RELIEF, mode="mirror").clip(0, 255)
    smooth = ndimage.uniform_filter(np.rint(relief), 3, mode="mirror")
    shown: Floats = drops * np.maximum(smooth, 0)  # its running sum may end just below 0
    return shown / max(float(shown.max()), 1e-12)


def _equalised(image: Bytes) -> Bytes:
    """Bytes spread over 0 to 255 so that each is about as frequent; the least becomes 0."""
    counts = np.bincount(image.ravel(), minlength=256)
    least = int(image.min())
    if counts[least] == image.size:
        return image
    counts[least] = 0
    spread: Bytes = np.rint(counts.cumsum() * 255 / counts.sum()).astype(np.uint8)[image]
    return spread
