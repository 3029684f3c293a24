"""Settings that name one of several choices, checked where they are made."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Literal

from homefold.errors import ConfigError

__all__ = ["hints_of", "require_choices"]


_hints: dict[type[Any], Mapping[str, Any]] = {}


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields by name.

    Python reads them from text whenever it is asked. That takes longer than all other checks of a configuration, of
    which a benchmark makes thousands, so it is asked once.
    """
    if kind not in _hints:
        _hints[kind] = MappingProxyType(typing.get_type_hints(kind))
    return _hints[kind]


def require_choices(config: Any) -> None:
    """Refuse a dataclass whose `Literal` fields hold anything but their choices, with the nearest one named."""
    for name, hint in hints_of(type(config)).items():
        if typing.get_origin(hint) is not Literal:
            continue
        value, choices = getattr(config, name), typing.get_args(hint)
        if value not in choices:
            close = difflib.get_close_matches(str(value), choices, n=1)
            hint_text = f" Did you mean {close[0]}?" if close else ""
            raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {value!r}.{hint_text}")
