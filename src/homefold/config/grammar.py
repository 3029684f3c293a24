"""Settings as people write them, `features.epochs=5`, in commands, in the names of methods, in files; and as JSON."""

from __future__ import annotations

import dataclasses
import json
import re
import types
import typing
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from homefold.config.augmentation import augmentation_preset
from homefold.config.migration import current_names, current_settings, without_removed_settings
from homefold.config.values import hints_of, place_of, unknown_setting
from homefold.config.views import MOST_VIEWS
from homefold.config.whole import HomefoldConfig
from homefold.errors import ConfigError, shown

__all__ = [
    "change_settings",
    "config_from_dict",
    "config_to_dict",
    "is_common",
    "parse_setting",
    "parse_settings",
    "replace_settings",
    "replaced",
    "saved_config",
    "split_settings",
    "with_settings",
]

C = TypeVar("C")

_COMMA = re.compile(r",(?![^\[]*\])")  # a comma, but not one inside a list in brackets


def config_to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def config_from_dict(kind: type[C], values: dict[str, Any]) -> C:
    """The configuration of a kind that `config_to_dict` wrote; a `ConfigError` names what does not fit.

    >>> from homefold.config import HomefoldConfig, config_to_dict, preset_config
    >>> config_from_dict(HomefoldConfig, config_to_dict(preset_config("small"))) == preset_config("small")
    True
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{place_of(kind) or kind.__name__} must be an object of settings; got {shown(values)}.")
    hints = hints_of(kind)
    return kind(**{str(name): _read_value(hints.get(name), value) for name, value in values.items()})


def saved_config(kind: type[C], values: dict[str, Any], origin: str) -> C:
    """The configuration that this version or an earlier one wrote to `origin`, as in "the model in photos-model"; a
    `ModelFileError` where its answers need a setting that is gone."""
    if isinstance(values, dict):
        values = current_settings(without_removed_settings(values, origin))
        if "look" not in hints_of(kind):  # features are not looked at
            values.pop("look", None)
    return config_from_dict(kind, values)


def _read_value(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return config_from_dict(hint, value)  # type: ignore[arg-type]
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)
    # As the settings' own words and the command line spell it.
    return None if optional and isinstance(value, str) and value in ("none", "None") else value


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


def split_settings(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What follows a method's name as changes of the common settings and settings of its own.

    >>> split_settings("search.steps=100,manifold.hidden=[64,64],weight=0.3")
    (('search.steps=100', 'manifold.hidden=[64,64]'), ('weight=0.3',))
    """
    parts = _COMMA.split(text)
    common = tuple(part for part in parts if is_common(part))
    return common, tuple(part for part in parts if part not in common)


def is_common(part: str) -> bool:
    """Whether `NAME=VALUE` after a method's name is a setting that is common to all methods."""
    name = part.partition("=")[0]
    return "." in name or name in ("seed", "normalise_features")


def with_settings(config: HomefoldConfig, text: str) -> HomefoldConfig:
    """`config` with what `text` says; an unknown name or a value of the wrong type gets a sentence."""
    return change_settings(config, parse_settings(text))


def change_settings(config: HomefoldConfig, settings: Mapping[str, Any], *, names_only: bool = False) -> HomefoldConfig:
    """`replace_settings` for values as people write them: one value alone, or slashes between the words of a list.

    With `names_only` the values are left alone: whether they fit may depend on other settings.
    """
    settings = current_names(settings)
    hints = {name: _type_of(name) for name in settings}
    if names_only:
        return config
    return replace_settings(config, {name: _written_value(hints[name], value) for name, value in settings.items()})


def _written_value(hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) is tuple and not isinstance(value, list):
        return value.split("/") if isinstance(value, str) else [value]
    return _read_value(hint, value)


def replace_settings(config: HomefoldConfig, settings: Mapping[str, Any]) -> HomefoldConfig:
    """`config` with the settings at dotted names replaced: `{"features.epochs": 5}`.

    A setting that leaves no room for others turns them off, unless they are named too; see `_make_room`.
    """
    settings = current_names(settings)
    for name in settings:
        _type_of(name)
    return replaced(_make_room(config, settings), settings)


def replaced(config: C, settings: Mapping[str, Any]) -> C:
    """The settings `config`, or a part of them, with the values at dotted names; all at once, as some only fit so."""
    values = {name: value for name, value in settings.items() if "." not in name}
    parts: dict[str, dict[str, Any]] = {}
    for name, value in settings.items():
        part, dot, inner = name.partition(".")
        if dot:
            parts.setdefault(part, {})[inner] = value
    inside = {part: replaced(values.get(part, getattr(config, part)), inner) for part, inner in parts.items()}
    return replace(config, **values | inside)  # type: ignore[type-var]


def _type_of(name: str) -> Any:
    """The type of the setting, or of the part, at a dotted name."""
    kind: Any = HomefoldConfig
    parts = name.split(".")
    for depth, part in enumerate(parts, 1):
        known = hints_of(kind) if isinstance(kind, type) and dataclasses.is_dataclass(kind) else {}
        if part not in known:
            raise unknown_setting(".".join(parts[:depth]) if known else name, known)
        kind = known[part]
    return kind


def _make_room(config: HomefoldConfig, settings: Mapping[str, Any]) -> HomefoldConfig:
    """`config` with all off that these settings, once they are replaced, leave no room for.

    A frozen backbone sees images once and as they are: no adapters, no augmentation, no MixStyle, and so no mirrored
    views. It has no starting weights to be given back, and neither has a network that starts from random ones.
    """
    is_frozen = str(settings.get("features.freeze")) == "backbone"
    if is_frozen or settings.get("features.weights") == "none":
        config = replace(config, features=replace(config.features, keep_pretrained=0.0))
    if not is_frozen:
        return config
    features = replace(
        config.features, augmentation=augmentation_preset("none"), mix_style_probability=0.0, adapter_rank=0
    )
    views = min(config.look.views, MOST_VIEWS // 2)
    return replace(config, features=features, look=replace(config.look, views=views))
