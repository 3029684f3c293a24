"""How an image becomes the network's input."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

import tyro

from homefold.config.choices import require_types
from homefold.errors import ConfigError

__all__ = ["Normalisation", "PreprocessingConfig"]

Normalisation = Literal["imagenet", "half", "none"]

_LARGEST_IMAGE_PX = 10_000


@dataclass(frozen=True)
class PreprocessingConfig:
    """How an image becomes the network's input."""

    image_size: Annotated[int, tyro.conf.arg(aliases=["--image-size"])] = 224
    """Side of the square, in pixels, that every image is resized to."""
    resize: Literal["squash", "crop"] = "squash"
    """squash ignores the aspect ratio and keeps every pixel in view; crop cuts out the centre square."""
    normalisation: Normalisation = "imagenet"
    """Statistics that the backbone expects: imagenet, half (to −1…1) or none."""

    def __post_init__(self) -> None:
        require_types(self)
        if not 1 <= self.image_size <= _LARGEST_IMAGE_PX:
            raise ConfigError(f"image_size must be 1 to {_LARGEST_IMAGE_PX} pixels; got {self.image_size}.")
