"""How each image is seen at prediction, before the search."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

from pydantic import Field

from homefold.config.values import dataclass
from homefold.config.views import MOST_TEXTURES, MOST_VIEWS

__all__ = ["LookConfig", "look_preset"]


@dataclass(frozen=True)
class LookConfig:
    """How each image is seen at prediction: its views, and whether its style is brought to the sources'."""

    views: Annotated[int, Field(ge=1, le=MOST_VIEWS)] = 1
    """Views of each image whose mean direction is projected (or classified, without projection): the image, its mirror
    image, then crops of 7/8 side at the centre and the corners with theirs; 1 to 12, or to 6 without mirror images."""
    mirror: bool = True
    """Let mirror images be among the views; they never are where training images were not mirrored, as for digits."""
    textures: Annotated[int, Field(ge=0, le=MOST_TEXTURES)] = 0
    """So many views more: the image after fixed random filters, as training varies it with texture_probability; 0 to
    16, and each takes as long as another view."""
    styles: bool = True
    """Bring the style of an image to the sources' before the search, where the model was fitted to do so."""

    @property
    def plain(self) -> LookConfig:
        """These settings for each image as it is, without further views."""
        return replace(self, views=1, textures=0)


def look_preset(name: str) -> LookConfig:
    """How images are seen with the search of that name: `paper` and `authors` leave styles as they are.

    >>> look_preset("paper").styles
    False
    """
    return LookConfig(styles=name not in ("paper", "authors"))
