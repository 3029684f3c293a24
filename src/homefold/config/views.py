"""The fixed views of one image, by name: the whole, crops of it, their mirror images, the whole filtered."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from homefold.errors import ConfigError

__all__ = ["MOST_TEXTURES", "MOST_VIEWS", "WHOLE", "Part", "View", "fixed_views"]

Part = Literal["whole", "centre", "top left", "top right", "bottom left", "bottom right"]

_PARTS: tuple[Part, ...] = ("whole", "centre", "top left", "top right", "bottom left", "bottom right")

MOST_VIEWS = 2 * len(_PARTS)
"""How many there are, mirror images among them."""

MOST_TEXTURES = 16
"""How many fixed filters there are."""


@dataclass(frozen=True)
class View:
    """A part of an image, stretched to the image's size: the whole, or a crop of 7/8 of the height and width."""

    part: Part = "whole"
    mirrored: bool = False
    """Left to right, after cropping."""
    texture: int = 0
    """Number of the fixed filter that it passes, from 1; 0 for none."""


WHOLE = (View(),)
"""The image itself and nothing else."""


def fixed_views(count: int, *, mirror: bool, textures: int = 0) -> tuple[View, ...]:
    """The first `count` views: the image, its mirror image, then the centre and the corners with theirs; then the image
    after each of the first fixed filters.

    >>> [view.part for view in fixed_views(3, mirror=False)]
    ['whole', 'centre', 'top left']
    """
    views = [View(part, mirrored) for part in _PARTS for mirrored in ((False, True) if mirror else (False,))]
    if not 1 <= count <= len(views):
        why = "" if mirror else " where nothing is mirrored (look.mirror, features.augmentation.flip_probability)"
        raise ConfigError(f"look.views must be 1 to {len(views)}{why}; got {count}, so set it lower.")
    return (*views[:count], *(View(texture=number) for number in range(1, textures + 1)))
