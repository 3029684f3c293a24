"""The named presets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from homefold.config.augmentation import AugmentationConfig, augmentation_preset
from homefold.config.backbones import BACKBONES
from homefold.config.features import FeatureConfig
from homefold.config.grammar import replace_settings
from homefold.config.manifold import paper_manifold_config
from homefold.config.migration import from_underscores
from homefold.config.normalisation import published_input
from homefold.config.search import search_preset
from homefold.config.whole import EARLY, HomefoldConfig, LookConfig, PreprocessingConfig, StyleConfig, look_preset
from homefold.errors import ConfigError

__all__ = ["list_presets", "preset_config"]

# A pretrained network at 224 px, as left-out source domains of PACS chose it (study/training-pacs.md).
_DEFAULT = HomefoldConfig(
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
# Small images, a small network from scratch, no GPU needed.
_SMALL = HomefoldConfig(
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
_FOUNDATION = replace(
    _DEFAULT,
    preprocessing=PreprocessingConfig(normalisation="clip"),
    features=replace(
        _DEFAULT.features,
        backbone="timm:vit_base_patch16_clip_224.openai",
        freeze="backbone",
        # On features of a ResNet-18, PACS without sketch: as good on held-out source images as 30 epochs at 0.1, which
        # is too much for a linear head.
        epochs=10,
        learning_rate=0.03,
        mix_style_probability=0.0,
        augmentation=augmentation_preset("none"),
    ),
    style=StyleConfig(),
)
_PRESETS = {
    "default": _DEFAULT,
    # `default` with what won on held-out source domains of PACS at any price: 8 views, styles of each domain, a fifth
    # of the pretrained weights kept (study/keep-pretrained.md).
    "thorough": replace(
        _DEFAULT,
        features=replace(_DEFAULT.features, keep_pretrained=0.2),
        look=LookConfig(views=8),
        style=replace(_DEFAULT.style, manifold="domains"),
    ),
    "small": _SMALL,
    # `small` with what won on left-out source domains of Digits-DG at any price: four fixed filters more.
    "small-thorough": replace(_SMALL, look=LookConfig(textures=4)),
    # The paper's text to the letter, for ResNet-18.
    "paper": HomefoldConfig(
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
    ),
    # A frozen foundation model: what it makes of an image is computed once and kept.
    "foundation": _FOUNDATION,
    # The same, and low-rank adapters inside it learn along with the head.
    "foundation-tuned": replace(
        _FOUNDATION,
        features=replace(
            _DEFAULT.features,
            backbone=_FOUNDATION.features.backbone,
            adapter_rank=8,
            batch_size=64,
            epochs=10,
            learning_rate=0.01,
            mix_style_probability=0.0,
        ),
    ),
}
_OF_PUBLISHED_WEIGHTS = ("default", "thorough", "foundation", "foundation-tuned")


def list_presets() -> list[str]:
    """The names that `preset_config` knows.

    >>> list_presets()
    ['default', 'thorough', 'small', 'small-thorough', 'paper', 'foundation', 'foundation-tuned']
    """
    return list(_PRESETS)


def preset_config(
    name: str = "default", settings: Mapping[str, Any] = MappingProxyType({}), **underscored: Any
) -> HomefoldConfig:
    """The configuration called `name`, with single settings changed.

    Args:
        name: `default` (a pretrained ResNet-18 at 224 px), `small` (a small network from scratch at 32 px, for CPUs),
            `thorough` (`default` with a fifth of the pretrained weights kept, and each image is answered by 8 views
            with the styles of each source domain),
            `small-thorough` (`small` and 4 fixed filters), `paper` (the text to the letter), `foundation` (a frozen
            CLIP ViT-B/16, whose features are computed once and kept) or `foundation-tuned` (the same with low-rank
            adapters, which need homefold[peft]).
        settings: values by dotted name. With `features.backbone` at `alexnet` the presets `default` and `thorough` have
            a learning rate of 0.003, unless that is given too. With `features.freeze` at `backbone` what a frozen
            backbone leaves no room for is off, unless it is given too. With `features.backbone` at `timm:NAME` a preset
            that starts from published weights has the image size and the normalisation that those were trained with.
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
    if backbone and name in _OF_PUBLISHED_WEIGHTS:
        plain = {"preprocessing.normalisation": PreprocessingConfig().normalisation}
        settings = {**(published_input(backbone) or plain), **settings}
    return replace_settings(_PRESETS[name], settings)
