"""Settings checked by the types of their fields, where they are made."""

from __future__ import annotations

import dataclasses
import difflib
import numbers
import os
import types
import typing
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal

from homefold.errors import ConfigError, shown

__all__ = ["LARGEST_COUNT", "LARGEST_INTEGER", "checked_value", "hints_of", "require_types"]

LARGEST_INTEGER = 2**63 - 1
LARGEST_COUNT = 2**31 - 1
_LARGEST_FLOAT = 3.4028234663852886e38  # of float32: what is larger is infinite where it is used

_hints: dict[type[Any], Mapping[str, Any]] = {}


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields by name.

    Python reads them from text whenever it is asked. That takes longer than all other checks of a configuration, of
    which a benchmark makes thousands, so it is asked once.
    """
    if kind not in _hints:
        _hints[kind] = MappingProxyType(typing.get_type_hints(kind))
    return _hints[kind]


def require_types(config: Any, *, most: int = LARGEST_COUNT) -> None:
    """Refuse a dataclass with a field that its type does not allow; the others become plain Python values.

    Args:
        config: the dataclass, which may be frozen.
        most: the largest integer that has a meaning in it.
    """
    for name, hint in hints_of(type(config)).items():
        if typing.get_origin(hint) is typing.ClassVar:
            continue
        value = getattr(config, name)
        checked = checked_value(hint, value, name, most=most)
        if checked is not value:
            object.__setattr__(config, name, checked)


def checked_value(hint: Any, value: Any, name: str, *, most: int = LARGEST_INTEGER) -> Any:
    """`value` as a plain Python value of its type; a `ConfigError` where it is none.

    Numbers are finite, of numpy or Python, and a boolean is none. A list stands for a tuple, a path for its text.

    Args:
        hint: a type: bool, int, float, str, a dataclass, a `Literal` of text, or a tuple or an optional of these.
        value: what was given.
        name: of the setting.
        most: the largest integer that has a meaning.

    >>> checked_value(tuple[float, ...], [1, 0.5], "milestones")
    (1.0, 0.5)
    """
    if hint is float:
        return _finite(value, name)
    if hint is int:
        return _whole(value, name, most)
    origin = typing.get_origin(hint)
    if origin is Literal:
        return _choice(value, name, typing.get_args(hint))
    if origin is tuple:
        inner = typing.get_args(hint)[0]
        return tuple(checked_value(inner, item, name, most=most) for item in _items(value, name))
    if origin in (typing.Union, types.UnionType):
        if value is None and type(None) in typing.get_args(hint):
            return None
        inner = next(item for item in typing.get_args(hint) if item is not type(None))
        return checked_value(inner, value, name, most=most)
    if hint is str and isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, hint):
        return value
    raise ConfigError(f"{name} must be {_WORDS.get(hint) or _kind(hint)}; got {shown(value)}.")


_WORDS = {bool: "true or false", str: "text", dict: "an object", list: "a list"}


def _kind(hint: type[Any]) -> str:
    return f"settings of {hint.__name__}" if dataclasses.is_dataclass(hint) else f"of type {hint.__name__}"


def _finite(value: Any, name: str) -> float:
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if is_number and abs(value) <= _LARGEST_FLOAT:
        return value if type(value) is float else float(value)
    raise ConfigError(f"{name} must be a finite number; got {shown(value)}.")


def _whole(value: Any, name: str, most: int) -> int:
    is_whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not is_whole:
        raise ConfigError(f"{name} must be a whole number; got {shown(value)}.")
    if abs(value) > most:
        raise ConfigError(f"{name} must be a whole number of at most {most}; got {shown(value)}.")
    return value if type(value) is int else int(value)


def _choice(value: Any, name: str, choices: tuple[str, ...]) -> str:
    if isinstance(value, str) and value in choices:
        return value
    close = difflib.get_close_matches(value, choices, n=1) if isinstance(value, str) else []
    hint_text = f" Did you mean {close[0]}?" if close else ""
    raise ConfigError(f"{name} must be one of {', '.join(choices)}; got {shown(value)}.{hint_text}")


def _items(value: Any, name: str) -> list[Any]:
    if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
        raise ConfigError(f"{name} must be a list; got {shown(value)}.")
    return list(value)
