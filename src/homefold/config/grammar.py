"""Settings as people write them: `features.epochs=5`, in commands, in the names of methods, in files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from homefold.config.migration import current_names
from homefold.config.plain import config_from_dict, config_to_dict
from homefold.config.presets import make_room
from homefold.config.values import unknown_setting
from homefold.config.whole import HomefoldConfig
from homefold.errors import ConfigError

__all__ = ["change_settings", "parse_setting", "parse_settings", "with_settings"]


def parse_settings(text: str) -> dict[str, Any]:
    """`"features.temperature=0.2 features.epochs=60"` as settings by dotted name.

    >>> parse_settings("features.temperature=0.2 features.head=mlp")
    {'features.temperature': 0.2, 'features.head': 'mlp'}
    """
    return dict(parse_setting(word) for word in text.split())


def parse_setting(word: str) -> tuple[str, Any]:
    """`"features.temperature=0.2"` as a dotted name and a value."""
    name, equals, value = word.partition("=")
    if not equals or not name or not value:
        raise ConfigError(f"{word!r} is no setting; write name=value, such as features.temperature=0.2.")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):  # no JSON, or more of it than can be read
        return name, value


def with_settings(config: HomefoldConfig, text: str) -> HomefoldConfig:
    """`config` with what `text` says; an unknown name or a value of the wrong type gets a sentence."""
    return change_settings(config, parse_settings(text))


def change_settings(config: HomefoldConfig, settings: Mapping[str, Any], *, names_only: bool = False) -> HomefoldConfig:
    """`config` with the values at dotted names; an unknown name or a value of the wrong type gets a sentence.

    Args:
        config: what is changed.
        settings: plain values by dotted name.
        names_only: look at the names alone, and leave the values: whether they fit may depend on the other settings.
    """
    settings = current_names(settings)
    values = config_to_dict(make_room(config, settings))
    for name, value in settings.items():
        *parts, last = name.split(".")
        place: Any = values
        for depth, part in enumerate(parts, 1):
            if part not in place:
                raise unknown_setting(".".join(parts[:depth]), place)
            place = place[part] if isinstance(place[part], dict) else {}
        if last not in place:
            raise unknown_setting(name, place)
        if isinstance(place[last], tuple) and not isinstance(value, list):
            # As people write it: one value alone, or slashes between the words of a list.
            value = value.split("/") if isinstance(value, str) else [value]
        place[last] = value
    return config if names_only else config_from_dict(HomefoldConfig, values)
