"""The named presets, and single settings changed."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, TypeVar

from homefold.config.augmentation import AugmentationConfig, augmentation_preset
from homefold.config.backbones import BACKBONES
from homefold.config.features import FeatureConfig
from homefold.config.look import look_preset
from homefold.config.manifold import paper_manifold_config
from homefold.config.migration import current_names, from_underscores
from homefold.config.preprocessing import PreprocessingConfig
from homefold.config.search import search_preset
from homefold.config.style import EARLY, StyleConfig
from homefold.config.values import hints_of, unknown_setting
from homefold.config.views import MOST_VIEWS
from homefold.config.whole import HomefoldConfig
from homefold.errors import ConfigError

__all__ = ["list_presets", "make_room", "preset_config", "replace_settings"]


def _default() -> HomefoldConfig:
    """A pretrained network at 224 px, as left-out source domains of PACS chose it (study/training-pacs.md)."""
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
    return replace(plain, look=replace(plain.look, views=8), style=replace(plain.style, manifold="domains"))


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
    return replace(plain, look=replace(plain.look, textures=4))


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
        look=look_preset("paper"),
        search=search_preset("paper"),
    )


_PRESETS = {
    "default": _default,
    "thorough": _thorough,
    "small": _small,
    "small-thorough": _small_thorough,
    "paper": _paper,
}


def list_presets() -> list[str]:
    """The names that `preset_config` knows.

    >>> list_presets()
    ['default', 'thorough', 'small', 'small-thorough', 'paper']
    """
    return list(_PRESETS)


def preset_config(
    name: str = "default", settings: Mapping[str, Any] = MappingProxyType({}), **underscored: Any
) -> HomefoldConfig:
    """The configuration called `name`, with single settings changed.

    Args:
        name: `default` (a pretrained ResNet-18 at 224 px), `small` (a small network from scratch at 32 px, for CPUs),
            `thorough` (`default`, and each image is answered by 8 views with the styles of each source domain),
            `small-thorough` (`small` and 4 fixed filters) or `paper` (the text to the letter).
        settings: values by dotted name. With `features.backbone` at `alexnet` the presets `default` and `thorough` have
            a learning rate of 0.003, unless that is given too. With `features.freeze` at `backbone` what a frozen
            backbone leaves no room for is off, unless it is given too.
        underscored: the same with two underscores for each dot, as earlier versions had it.

    >>> preset_config("small", {"features.epochs": 5}).features.epochs
    5
    """
    if name not in _PRESETS:
        raise ConfigError(f"there is no preset {name!r}; choose one of {', '.join(_PRESETS)}.")
    settings = {**settings, **from_underscores(underscored)}
    backbone = str(settings.get("features.backbone", ""))
    if backbone and backbone in BACKBONES and name in BACKBONES[backbone].rates:
        settings = {"features.learning_rate": BACKBONES[backbone].rates[name], **settings}
    return replace_settings(_PRESETS[name](), settings)


C = TypeVar("C")


def replace_settings(config: C, settings: dict[str, Any]) -> C:
    """`config` with the settings at dotted names replaced: `{"features.epochs": 5}`.

    A setting that leaves no room for others turns them off, unless they are named too; see `make_room`.
    """
    if isinstance(config, HomefoldConfig):
        settings = current_names(settings)
    config = make_room(config, settings)
    for name, value in settings.items():
        config = _replace_one(config, name.split("."), value, name)
    return config


def make_room(config: C, settings: Mapping[str, Any]) -> C:
    """`config` with all off that these settings, once they are replaced, leave no room for.

    A frozen backbone sees images once and as they are: no augmentation, no MixStyle, and so no mirrored views.

    >>> preset_config("default", {"features.freeze": "backbone"}).features.mix_style_probability
    0.0
    """
    if not isinstance(config, HomefoldConfig) or settings.get("features.freeze") != "backbone":
        return config
    features = replace(config.features, augmentation=augmentation_preset("none"), mix_style_probability=0.0)
    views = min(config.look.views, MOST_VIEWS // 2)
    return replace(config, features=features, look=replace(config.look, views=views))


def _replace_one(config: Any, parts: list[str], value: Any, whole: str) -> Any:
    if len(parts) > 1:
        inner = getattr(config, parts[0], None)
        if not dataclasses.is_dataclass(inner):
            raise unknown_setting(whole, () if inner is not None else hints_of(type(config)))
        value = _replace_one(inner, parts[1:], value, whole)
    return dataclasses.replace(config, **{parts[0]: value})
