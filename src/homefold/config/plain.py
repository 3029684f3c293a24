"""Settings as plain JSON values, and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

from homefold.config.choices import checked_value, hints_of
from homefold.config.migration import current_settings, without_removed_settings
from homefold.errors import ConfigError, cut, shown

__all__ = ["config_from_dict", "config_to_dict", "saved_config"]

C = TypeVar("C")


def config_to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def config_from_dict(kind: type[C], values: dict[str, Any], *, within: str = "") -> C:
    """The configuration that `config_to_dict` wrote; a `ConfigError` names what does not fit.

    Args:
        kind: the dataclass.
        values: plain JSON values.
        within: the dotted name of the part that this is, for what is said of its settings.

    >>> from homefold.config import HomefoldConfig, config_to_dict, preset_config
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
    kept = without_removed_settings(kind, values, origin, within=within)
    if not within and isinstance(kept, dict) and "projection" not in hints_of(kind):
        kept = current_settings(kept)
        if "look" not in hints_of(kind):  # features are not looked at
            kept.pop("look", None)
    return config_from_dict(kind, kept, within=within)


def _read_value(hint: Any, value: Any, name: str) -> Any:
    if dataclasses.is_dataclass(hint):
        return config_from_dict(hint, value, within=name)  # type: ignore[arg-type]
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)
    if optional and value in ("none", "None"):  # as the settings' own words and the command line spell it
        return None
    return checked_value(hint, value, name)
