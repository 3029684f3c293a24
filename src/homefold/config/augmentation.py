"""How training images are varied, and the named presets of it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Annotated

from pydantic import Field

from homefold.config.values import Count, FromZero, Positive, Share, dataclass
from homefold.errors import ConfigError

__all__ = ["AUGMENTATION_PRESETS", "AugmentationConfig", "augmentation_preset"]


@dataclass(frozen=True)
class AugmentationConfig:
    """How strongly training images are varied; an operation at probability or strength zero is skipped entirely."""

    crop_min_area: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Smallest share of the image's area a random crop keeps before it is resized back; 1 turns cropping off."""
    crop_min_aspect: Positive = 3 / 4
    """Smallest width/height of a crop, where the image's own shape allows it."""
    crop_max_aspect: Positive = 4 / 3
    """Largest width/height of a crop, where the image's own shape allows it."""
    flip_probability: Share = 0.5
    """How often an image is mirrored left to right."""
    jitter_probability: Share = 1.0
    """How often brightness, contrast, saturation and hue are varied."""
    brightness: FromZero = 0.4
    """Brightness factor is drawn from 1 - this (not below 0) to 1 + this."""
    contrast: FromZero = 0.4
    """Contrast factor is drawn from 1 - this (not below 0) to 1 + this."""
    saturation: FromZero = 0.4
    """Saturation factor is drawn from 1 - this (not below 0) to 1 + this."""
    hue: Annotated[float, Field(ge=0, le=0.5)] = 0.1
    """Hue shift is drawn from -this to +this, in turns of the colour circle; at most 0.5."""
    grey_probability: Share = 0.1
    """How often an image loses its colour."""
    blur_probability: Share = 0.0
    """How often an image is blurred by a Gaussian."""
    blur_kernel_px: Count = 21
    """Width of the blur's window, odd; on a smaller image the widest window that reflection at its border allows."""
    blur_sigma_min: Positive = 0.1
    """Smallest standard deviation of the blur, in pixels."""
    blur_sigma_max: Positive = 2.0
    """Largest standard deviation of the blur, in pixels."""
    noise_sigma: FromZero = 0.0
    """Standard deviation of the Gaussian noise added to every value of every image, on the scale 0 to 1."""
    fourier_mix_probability: Share = 0.0
    """How often an image's Fourier amplitudes (its style) are mixed with another image's of the batch."""
    fourier_mix_strength: Share = 1.0
    """The other image's share in the amplitudes is drawn from 0 to this; at most 1."""
    texture_probability: Share = 0.0
    """How often an image passes through a random filter of its own: new texture and colours, the same shapes."""
    texture_passes: Count = 3
    """The image passes through its filter once to so many times; each pass costs time."""

    def __post_init__(self) -> None:
        for low, high in (("crop_min_aspect", "crop_max_aspect"), ("blur_sigma_min", "blur_sigma_max")):
            least, given = getattr(self, low), getattr(self, high)
            if given < least:
                raise ConfigError(
                    f"features.augmentation.{high} must not be below features.augmentation.{low}, which is {least}; "
                    f"got {given}."
                )
        if self.blur_kernel_px % 2 == 0:
            raise ConfigError(
                f"features.augmentation.blur_kernel_px must be odd, so that the window has a middle; got "
                f"{self.blur_kernel_px}."
            )

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
        # chosen on left-out source domains of Digits-DG: study/training-digits.md.
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
