"""The whole configuration of a model, its named presets, and its way to JSON and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, TypeVar

import tyro

from homefold.classifier import ClassifierConfig
from homefold.config.choices import LARGEST_INTEGER, checked_value, hints_of, require_types
from homefold.config.removed import without_removed_settings
from homefold.data.augmentation import AugmentationConfig, augmentation_preset
from homefold.errors import ConfigError, cut, shown
from homefold.features.config import FeatureConfig
from homefold.features.network import Normalisation
from homefold.features.views import MOST_VIEWS, View, fixed_views
from homefold.manifold import ManifoldConfig, paper_manifold_config
from homefold.projection.config import ProjectionConfig, projection_preset
from homefold.style.config import EARLY, StyleConfig

__all__ = [
    "HomefoldConfig",
    "PreprocessingConfig",
    "config_from_dict",
    "config_to_dict",
    "list_presets",
    "make_room",
    "preset_config",
    "replace_settings",
    "saved_config",
]

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


@dataclass(frozen=True)
class HomefoldConfig:
    """Everything that decides what a fit gives, but the data."""

    seed: int = 0
    """All randomness of the fit and of the random starts follows from it."""
    preprocessing: PreprocessingConfig = field(default_factory=PreprocessingConfig)
    """How an image becomes the network's input."""
    features: FeatureConfig = field(default_factory=FeatureConfig)
    """Stage 1: the network f and how it is trained."""
    normalise_features: bool = True
    """Scale every feature to length √d before stages 2 and 3: similarity is cosine, so length carries nothing."""
    manifold: ManifoldConfig = field(default_factory=ManifoldConfig)
    """Stage 2: the generative model G of the source features."""
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    """Stage 3: the classifier C."""
    projection: ProjectionConfig = field(default_factory=ProjectionConfig)
    """Stage 4: the search at inference."""
    style: StyleConfig = field(default_factory=StyleConfig)
    """How the style of an unseen image is brought to the source styles inside the network."""

    def __post_init__(self) -> None:
        require_types(self, most=LARGEST_INTEGER)

    def views(self, projection: ProjectionConfig | None = None) -> tuple[View, ...]:
        """How each image is seen at prediction, by other settings of the projection if they are given."""
        asked = projection or self.projection
        mirror = asked.mirror and self.features.augmentation.flip_probability > 0
        return fixed_views(asked.views, mirror=mirror, textures=asked.textures)

    def require_consistent(self) -> None:
        """Refuse settings that contradict each other; called when all of them are known."""
        self.views()
        self.features.require_consistent()


def _default() -> HomefoldConfig:
    """A pretrained network at 224 px, as left-out source domains of PACS chose it (docs/findings.md)."""
    return HomefoldConfig(
        features=FeatureConfig(
            temperature=0.2,
            cross_entropy_weight=1.0,
            learning_rate=0.1,
            mix_style_probability=0.5,
            average_from=0.5,
            average_every=20,
            augmentation=AugmentationConfig(grey_probability=0.25, fourier_mix_probability=0.5),
        ),
        style=StyleConfig(blocks=(EARLY,), manifold="mean", weight=0.5),
    )


def _thorough() -> HomefoldConfig:
    """`default` with what won on left-out source domains of PACS at any price: 8 views, styles of each domain."""
    plain = _default()
    return replace(plain, projection=replace(plain.projection, views=8), style=replace(plain.style, manifold="domains"))


def _small() -> HomefoldConfig:
    """Small images, a small network from scratch, no GPU needed."""
    return HomefoldConfig(
        preprocessing=PreprocessingConfig(image_size=32, normalisation="half"),
        features=FeatureConfig(
            backbone="digits-bn",
            weights="none",
            head="linear",
            feature_dim=128,
            cross_entropy_weight=1.0,
            epochs=30,
            augmentation=augmentation_preset("digits"),
        ),
        style=StyleConfig(blocks=(EARLY,), manifold="domains", weight=0.5),
    )


def _small_thorough() -> HomefoldConfig:
    """`small` with what won on left-out source domains of Digits-DG at any price: four fixed filters more."""
    plain = _small()
    return replace(plain, projection=replace(plain.projection, textures=4))


def _paper() -> HomefoldConfig:
    """The paper's text to the letter, for ResNet-18."""
    return HomefoldConfig(
        preprocessing=PreprocessingConfig(normalisation="none"),
        features=FeatureConfig(
            head="linear",
            learning_rate=0.001,
            momentum=0.0,
            weight_decay=0.0,
            schedule="constant",
            epochs=200,
            augmentation=augmentation_preset("paper"),
        ),
        normalise_features=False,
        manifold=paper_manifold_config(),
        projection=projection_preset("paper"),
    )


_PRESETS = {
    "default": _default,
    "thorough": _thorough,
    "small": _small,
    "small-thorough": _small_thorough,
    "paper": _paper,
}
_OWN_RATES = {("default", "alexnet"): 0.003, ("thorough", "alexnet"): 0.003}
"""By preset and backbone: AlexNet has no batch norm, and diverges at 0.03 already."""


def list_presets() -> list[str]:
    """The names that `preset_config` knows.

    >>> list_presets()
    ['default', 'thorough', 'small', 'small-thorough', 'paper']
    """
    return list(_PRESETS)


def preset_config(name: str = "default", **settings: Any) -> HomefoldConfig:
    """The configuration called `name`, with single settings changed.

    Args:
        name: `default` (a pretrained ResNet-18 at 224 px), `small` (a small network from scratch at 32 px, for CPUs),
            `thorough` (`default`, and each image is answered by 8 views with the styles of each source domain),
            `small-thorough` (`small` and 4 fixed filters) or `paper` (the text to the letter).
        settings: dotted names with the dots written as two underscores. With `features__backbone="alexnet"` the presets
            `default` and `thorough` have a learning rate of 0.003, unless that is given too. With
            `features__freeze="backbone"` what a frozen backbone leaves no room for is off, unless it is given too.

    >>> preset_config("small", features__epochs=5).features.epochs
    5
    """
    if name not in _PRESETS:
        raise ConfigError(f"there is no preset {name!r}; choose one of {', '.join(_PRESETS)}.")
    own_rate = _OWN_RATES.get((name, settings.get("features__backbone", "")))
    if own_rate is not None:
        settings = {"features__learning_rate": own_rate, **settings}
    return replace_settings(_PRESETS[name](), {key.replace("__", "."): value for key, value in settings.items()})


C = TypeVar("C")


def replace_settings(config: C, settings: dict[str, Any]) -> C:
    """`config` with the settings at dotted names replaced: `{"features.epochs": 5}`.

    A setting that leaves no room for others turns them off, unless they are named too; see `make_room`.
    """
    config = make_room(config, settings)
    for name, value in settings.items():
        config = _replace_one(config, name.split("."), value, name)
    return config


def make_room(config: C, settings: Mapping[str, Any]) -> C:
    """`config` with all off that these settings, once they are replaced, leave no room for.

    A frozen backbone sees images once and as they are: no augmentation, no MixStyle, and so no mirrored views.

    >>> preset_config("default", features__freeze="backbone").features.mix_style_probability
    0.0
    """
    if not isinstance(config, HomefoldConfig) or settings.get("features.freeze") != "backbone":
        return config
    features = replace(config.features, augmentation=augmentation_preset("none"), mix_style_probability=0.0)
    views = min(config.projection.views, MOST_VIEWS // 2)
    return replace(config, features=features, projection=replace(config.projection, views=views))


def _replace_one(config: Any, parts: list[str], value: Any, whole: str) -> Any:
    known = [item.name for item in dataclasses.fields(config)]
    if parts[0] not in known:
        raise ConfigError(f"there is no setting {whole!r}; {type(config).__name__} has {', '.join(known)}.")
    if len(parts) > 1:
        inner = getattr(config, parts[0])
        if not dataclasses.is_dataclass(inner):
            raise ConfigError(f"there is no setting {whole!r}: {parts[0]} has no parts.")
        value = _replace_one(inner, parts[1:], value, whole)
    return dataclasses.replace(config, **{parts[0]: value})


def config_to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def config_from_dict(kind: type[C], values: dict[str, Any], *, within: str = "") -> C:
    """The configuration that `config_to_dict` wrote; a `ConfigError` names what does not fit.

    Args:
        kind: the dataclass.
        values: plain JSON values.
        within: the dotted name of the part that this is, for what is said of its settings.

    >>> config_from_dict(HomefoldConfig, config_to_dict(preset_config("small"))) == preset_config("small")
    True
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{within or kind.__name__} must be an object of settings; got {shown(values)}.")
    hints = hints_of(kind)
    unknown = sorted(set(values) - {item.name for item in dataclasses.fields(kind)})  # type: ignore[arg-type]
    if unknown:
        raise ConfigError(f"{kind.__name__} has no setting {cut(', '.join(unknown))}.")
    before = f"{within}." if within else ""
    return kind(**{name: _read_value(hints[name], value, before + name) for name, value in values.items()})


def saved_config(kind: type[C], values: dict[str, Any], origin: str, *, within: str = "") -> C:
    """The configuration that this version or an earlier one wrote; a `ModelFileError` where its answers need a setting
    that is gone.

    Args:
        kind: the dataclass.
        values: plain JSON values.
        origin: where they were found, as in "the model in photos-model".
        within: the dotted name of the part that this is.
    """
    return config_from_dict(kind, without_removed_settings(kind, values, origin, within=within), within=within)


def _read_value(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return config_from_dict(hint, value, within=name)  # type: ignore[arg-type]
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)
    if optional and value in ("none", "None"):  # as the settings' own words and the command line spell it
        return None
    return checked_value(hint, value, name)
