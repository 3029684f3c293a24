"""New images that were trained on, or nearly so: an accuracy measured on them says little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from homefold.stages.source_images import NearestImage, SourceImages, digest_of

__all__ = ["Duplicate", "digest_of", "find_duplicates", "small_grey"]

_SIDE = 16
_CANDIDATES = 5
_ALIKE = 0.98


@dataclass(frozen=True)
class Duplicate:
    """A new image and the source image that it repeats.

    Args:
        image: its place among the new ones.
        source: what it repeats.
        exact: whether every pixel is the same at the model's size.
    """

    image: int
    source: NearestImage
    exact: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"image": self.image, "exact": self.exact, "source": self.source.as_dict()}


def small_grey(image: np.ndarray) -> np.ndarray:
    """`(256,)` for `(h, w, 3)` uint8: 16 × 16 grey means less their own, of length 1; zeros for a flat image."""
    grey = image.astype(np.float64).mean(axis=2)
    rows, columns = (np.array_split(np.arange(size), min(_SIDE, size)) for size in grey.shape)
    means = np.stack([grey[part].mean(axis=0) for part in rows])
    small = np.stack([means[:, part].mean(axis=1) for part in columns], axis=1).reshape(-1)
    small -= small.mean()
    length = np.linalg.norm(small)
    found: np.ndarray = small / length if length > 1e-6 else np.zeros_like(small)
    return found


def find_duplicates(
    features: np.ndarray, digests: Sequence[bytes], greys: Sequence[np.ndarray], sources: SourceImages
) -> tuple[Duplicate, ...]:
    """Which new images repeat a source image: exactly, or one near by features whose small grey copy is alike.

    Args:
        features: `(n, d)` prepared features of the new images.
        digests, greys: of each, as `digest_of` and `small_grey` give them.
        sources: with their pixels.
    """
    assert sources.images is not None
    places, cosines = sources.nearest(features, _CANDIDATES)
    found = []
    for row, (digest, grey) in enumerate(zip(digests, greys, strict=True)):
        same = sources.by_digest.get(digest)
        alike = [float(small_grey(sources.images[place]) @ grey) for place in places[row].tolist()]
        best = int(np.argmax(alike))
        if same is not None:
            at = np.array([same])
            found.append(Duplicate(row, sources.described(at, np.ones(1))[0], exact=True))
        elif alike[best] >= _ALIKE:
            found.append(Duplicate(row, sources.described(places[row], cosines[row])[best], exact=False))
    return tuple(found)
