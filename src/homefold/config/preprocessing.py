"""How an image becomes the network's input."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from homefold.config.values import dataclass

__all__ = ["Normalisation", "PreprocessingConfig"]

Normalisation = Literal["imagenet", "half", "none"]

_LARGEST_IMAGE_PX = 10_000


@dataclass(frozen=True)
class PreprocessingConfig:
    """How an image becomes the network's input."""

    image_size: Annotated[int, Field(ge=1, le=_LARGEST_IMAGE_PX)] = 224
    """Side of the square, in pixels, that every image is resized to."""
    resize: Literal["squash", "crop"] = "squash"
    """squash ignores the aspect ratio and keeps every pixel in view; crop cuts out the centre square."""
    normalisation: Normalisation = "imagenet"
    """Statistics that the backbone expects: imagenet, half (to −1…1) or none."""
