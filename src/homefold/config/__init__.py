"""Every setting, the presets, and the one grammar they are written in; imports no torch and no other room."""

from __future__ import annotations

from homefold.config.augmentation import AUGMENTATION_PRESETS, AugmentationConfig, augmentation_preset
from homefold.config.classifier import ClassifierConfig
from homefold.config.features import FeatureConfig
from homefold.config.grammar import change_settings, parse_setting, parse_settings, with_settings
from homefold.config.look import LookConfig, look_preset
from homefold.config.manifold import ManifoldConfig, paper_manifold_config
from homefold.config.plain import config_from_dict, config_to_dict, saved_config
from homefold.config.preprocessing import PreprocessingConfig
from homefold.config.presets import list_presets, make_room, preset_config, replace_settings
from homefold.config.search import SearchConfig, search_preset
from homefold.config.style import StyleConfig
from homefold.config.whole import HomefoldConfig

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
    "make_room",
    "paper_manifold_config",
    "parse_setting",
    "parse_settings",
    "preset_config",
    "replace_settings",
    "saved_config",
    "search_preset",
    "with_settings",
]
