"""Every setting, the presets, and the one grammar they are written in; imports no torch and no other room."""

from __future__ import annotations

from homefold.config.augmentation import AUGMENTATION_PRESETS, AugmentationConfig, augmentation_preset
from homefold.config.features import FeatureConfig
from homefold.config.grammar import (
    change_settings,
    config_from_dict,
    config_to_dict,
    parse_setting,
    replace_settings,
    saved_config,
    with_settings,
)
from homefold.config.manifold import ManifoldConfig, paper_manifold_config
from homefold.config.presets import list_presets, preset_config
from homefold.config.search import SearchConfig, search_preset
from homefold.config.whole import (
    ClassifierConfig,
    HomefoldConfig,
    LookConfig,
    PreprocessingConfig,
    StyleConfig,
    look_preset,
)

__all__ = [
    "AUGMENTATION_PRESETS",
    "AugmentationConfig",
    "ClassifierConfig",
    "FeatureConfig",
    "HomefoldConfig",
    "LookConfig",
    "ManifoldConfig",
    "PreprocessingConfig",
    "SearchConfig",
    "StyleConfig",
    "augmentation_preset",
    "change_settings",
    "config_from_dict",
    "config_to_dict",
    "list_presets",
    "look_preset",
    "paper_manifold_config",
    "parse_setting",
    "preset_config",
    "replace_settings",
    "saved_config",
    "search_preset",
    "with_settings",
]
