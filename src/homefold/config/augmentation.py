"""How training images are varied, and the named presets of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from homefold.config.choices import require_types
from homefold.errors import ConfigError

__all__ = ["AUGMENTATION_PRESETS", "AugmentationConfig", "augmentation_preset"]


@dataclass(frozen=True)
class AugmentationConfig:
    """How strongly training images are varied; an operation at probability or strength zero is skipped entirely."""

    crop_min_area: float = 0.7
    """Smallest share of the image's area a random crop keeps before it is resized back; 1 turns cropping off."""
    crop_min_aspect: float = 3 / 4
    """Smallest width/height of a crop, where the image's own shape allows it."""
    crop_max_aspect: float = 4 / 3
    """Largest width/height of a crop, where the image's own shape allows it."""
    flip_probability: float = 0.5
    """How often an image is mirrored left to right."""
    jitter_probability: float = 1.0
    """How often brightness, contrast, saturation and hue are varied."""
    brightness: float = 0.4
    """Brightness factor is drawn from 1 - this (not below 0) to 1 + this."""
    contrast: float = 0.4
    """Contrast factor is drawn from 1 - this (not below 0) to 1 + this."""
    saturation: float = 0.4
    """Saturation factor is drawn from 1 - this (not below 0) to 1 + this."""
    hue: float = 0.1
    """Hue shift is drawn from -this to +this, in turns of the colour circle; at most 0.5."""
    grey_probability: float = 0.1
    """How often an image loses its colour."""
    blur_probability: float = 0.0
    """How often an image is blurred by a Gaussian."""
    blur_kernel_px: int = 21
    """Width of the blur's window, odd; on a smaller image the widest window that reflection at its border allows."""
    blur_sigma_min: float = 0.1
    """Smallest standard deviation of the blur, in pixels."""
    blur_sigma_max: float = 2.0
    """Largest standard deviation of the blur, in pixels."""
    noise_sigma: float = 0.0
    """Standard deviation of the Gaussian noise added to every value of every image, on the scale 0 to 1."""
    fourier_mix_probability: float = 0.0
    """How often an image's Fourier amplitudes (its style) are mixed with another image's of the batch."""
    fourier_mix_strength: float = 1.0
    """The other image's share in the amplitudes is drawn from 0 to this; at most 1."""
    texture_probability: float = 0.0
    """How often an image passes through a random filter of its own: new texture and colours, the same shapes."""
    texture_passes: int = 3
    """The image passes through its filter once to so many times; each pass costs time."""

    def __post_init__(self) -> None:
        require_types(self)
        for name in (
            "flip_probability",
            "jitter_probability",
            "grey_probability",
            "blur_probability",
            "fourier_mix_probability",
            "texture_probability",
        ):
            self._require(name, 0, 1, "it is a probability")
        for name in ("brightness", "contrast", "saturation", "noise_sigma"):
            self._require(name, 0, math.inf, "it is a strength")
        self._require("hue", 0, 0.5, "half a turn of the colour circle is the most a hue can shift")
        self._require("fourier_mix_strength", 0, 1, "it is the largest share of the other image")
        self._require("crop_min_area", 0, 1, "it is a share of the image's area", exclude_low=True)
        for low, high in (("crop_min_aspect", "crop_max_aspect"), ("blur_sigma_min", "blur_sigma_max")):
            self._require(low, 0, math.inf, "nothing smaller has a meaning", exclude_low=True)
            self._require(high, getattr(self, low), math.inf, f"it must not be below {low}")
        if self.blur_kernel_px < 1 or self.blur_kernel_px % 2 == 0:
            raise ConfigError(
                f"blur_kernel_px is {self.blur_kernel_px!r}: a window needs a middle, so give an odd integer from 1."
            )
        if self.texture_passes < 1:
            raise ConfigError(f"texture_passes is {self.texture_passes!r}: it is a number of passes, from 1.")

    def _require(self, name: str, low: float, high: float, why: str, *, exclude_low: bool = False) -> None:
        value = getattr(self, name)
        if not low <= value <= high or (exclude_low and value == low):
            bounds = f"{'above' if exclude_low else 'from'} {low:g}" + (f" to {high:g}" if high < math.inf else "")
            raise ConfigError(f"{name} is {value!r}: {why}, so give a finite number {bounds}.")

    @property
    def jitters(self) -> bool:
        """Whether any colour jitter can happen."""
        return self.jitter_probability > 0 and max(self.brightness, self.contrast, self.saturation, self.hue) > 0

    @property
    def mixes(self) -> bool:
        """Whether any Fourier amplitude mixing can happen."""
        return self.fourier_mix_probability > 0 and self.fourier_mix_strength > 0

    @property
    def does_nothing(self) -> bool:
        """Whether every operation is off."""
        return not self.to_turn_off()

    def to_turn_off(self) -> dict[str, float]:
        """What must be set, and to which value, for every operation to be off.

        >>> AugmentationConfig(hue=0.2, jitter_probability=0, grey_probability=0).to_turn_off()
        {'crop_min_area': 1, 'flip_probability': 0}
        """
        off: dict[str, float] = {"crop_min_area": 1} if self.crop_min_area < 1 else {}
        running = {
            "flip_probability": self.flip_probability > 0,
            "jitter_probability": self.jitters,
            "grey_probability": self.grey_probability > 0,
            "blur_probability": self.blur_probability > 0,
            "noise_sigma": self.noise_sigma > 0,
            "fourier_mix_probability": self.mixes,
            "texture_probability": self.texture_probability > 0,
        }
        return off | {name: 0 for name, runs in running.items() if runs}


AUGMENTATION_PRESETS: Mapping[str, AugmentationConfig] = MappingProxyType(
    {
        "default": AugmentationConfig(),
        "paper": AugmentationConfig(
            crop_min_area=0.08,
            jitter_probability=0.8,
            brightness=0.8,
            contrast=0.8,
            saturation=0.8,
            hue=0.2,
            grey_probability=0.2,
            blur_probability=0.5,
            noise_sigma=0.2,
        ),
        # A mirrored digit is another sign or none, and a tight crop cuts strokes that tell 1 from 7. Filters were
        # chosen on left-out source domains of Digits-DG: docs/findings.md.
        "digits": AugmentationConfig(crop_min_area=0.8, flip_probability=0.0, texture_probability=0.5),
        "none": AugmentationConfig(
            crop_min_area=1.0, flip_probability=0.0, jitter_probability=0.0, grey_probability=0.0
        ),
    }
)


def augmentation_preset(name: str) -> AugmentationConfig:
    """The settings called `name`.

    >>> augmentation_preset("paper").noise_sigma
    0.2
    """
    if name not in AUGMENTATION_PRESETS:
        raise ConfigError(f"there is no augmentation preset {name!r}; choose one of {', '.join(AUGMENTATION_PRESETS)}.")
    return AUGMENTATION_PRESETS[name]
