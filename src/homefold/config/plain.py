"""Settings as plain JSON values, and back."""

from __future__ import annotations

import dataclasses
import types
import typing
from typing import Any, TypeVar

from homefold.config.migration import current_settings, without_removed_settings
from homefold.config.values import hints_of, place_of
from homefold.errors import ConfigError, shown

__all__ = ["config_from_dict", "config_to_dict", "saved_config"]

C = TypeVar("C")


def config_to_dict(config: Any) -> dict[str, Any]:
    """A configuration as plain JSON values."""
    return dataclasses.asdict(config)


def config_from_dict(kind: type[C], values: dict[str, Any]) -> C:
    """The configuration that `config_to_dict` wrote; a `ConfigError` names what does not fit.

    Args:
        kind: the dataclass.
        values: plain JSON values.

    >>> from homefold.config import HomefoldConfig, config_to_dict, preset_config
    >>> config_from_dict(HomefoldConfig, config_to_dict(preset_config("small"))) == preset_config("small")
    True
    """
    if not isinstance(values, dict):
        raise ConfigError(f"{place_of(kind) or kind.__name__} must be an object of settings; got {shown(values)}.")
    hints = hints_of(kind)
    return kind(**{str(name): _read_value(hints.get(name), value) for name, value in values.items()})


def saved_config(kind: type[C], values: dict[str, Any], origin: str) -> C:
    """The configuration that this version or an earlier one wrote; a `ModelFileError` where its answers need a setting
    that is gone.

    Args:
        kind: the dataclass.
        values: plain JSON values.
        origin: where they were found, as in "the model in photos-model".
    """
    kept = without_removed_settings(kind, values, origin)
    if isinstance(kept, dict) and "projection" not in hints_of(kind):
        kept = current_settings(kept)
        if "look" not in hints_of(kind):  # features are not looked at
            kept.pop("look", None)
    return config_from_dict(kind, kept)


def _read_value(hint: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(hint):
        return config_from_dict(hint, value)  # type: ignore[arg-type]
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and type(None) in typing.get_args(hint)
    # As the settings' own words and the command line spell it.
    return None if optional and value in ("none", "None") else value
