"""Every setting, the presets, and the one grammar they are written in."""

from homefold.config.grammar import change_settings, parse_setting, parse_settings, with_settings
from homefold.config.whole import (
    HomefoldConfig,
    PreprocessingConfig,
    config_from_dict,
    config_to_dict,
    list_presets,
    make_room,
    preset_config,
    replace_settings,
    saved_config,
)

__all__ = [
    "HomefoldConfig",
    "PreprocessingConfig",
    "change_settings",
    "config_from_dict",
    "config_to_dict",
    "list_presets",
    "make_room",
    "parse_setting",
    "parse_settings",
    "preset_config",
    "replace_settings",
    "saved_config",
    "with_settings",
]
