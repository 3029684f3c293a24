"""Every setting, the presets, and the one grammar they are written in."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
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

# Put off: the rooms whose settings these are import `homefold.config.choices`, which must not import the rooms first.
_PLACE = dict.fromkeys(("change_settings", "parse_setting", "parse_settings", "with_settings"), "grammar")


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'homefold.config' has no attribute {name!r}")
    return getattr(import_module(f"homefold.config.{_PLACE.get(name, 'whole')}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
