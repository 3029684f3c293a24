"""The 19 corruptions of CIFAR-10-C in five severities, for images of 32 px.

Strengths are those that CIFAR-10-C was made with; ImageNet-C's are others. The published files were made with OpenCV,
ImageMagick and scikit-image and other random numbers, so single pixels differ from them.
"""

from __future__ import annotations

import numpy as np

from homefold.data.corruptions import blur, colour, geometry, noise, weather
from homefold.data.corruptions.values import Corruption, to_bytes, to_floats

__all__ = ["CORRUPTIONS", "SEVERITIES", "corrupt"]

CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": noise.gaussian_noise,
    "shot_noise": noise.shot_noise,
    "impulse_noise": noise.impulse_noise,
    "defocus_blur": blur.defocus_blur,
    "glass_blur": blur.glass_blur,
    "motion_blur": blur.motion_blur,
    "zoom_blur": blur.zoom_blur,
    "snow": weather.snow,
    "frost": weather.frost,
    "fog": weather.fog,
    "brightness": colour.brightness,
    "contrast": colour.contrast,
    "elastic_transform": geometry.elastic_transform,
    "pixelate": geometry.pixelate,
    "jpeg_compression": geometry.jpeg_compression,
    "speckle_noise": noise.speckle_noise,
    "gaussian_blur": blur.gaussian_blur,
    "spatter": weather.spatter,
    "saturate": colour.saturate,
}
SEVERITIES = (1, 2, 3, 4, 5)


def corrupt(images: np.ndarray, name: str, severity: int, random: np.random.Generator) -> np.ndarray:
    """The images `(n, 32, 32, 3)` uint8 under a corruption, each with draws of its own."""
    return to_bytes(CORRUPTIONS[name](to_floats(images), severity - 1, random))
