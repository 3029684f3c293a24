"""What values a setting can have: ranges in the types of the fields, pydantic to check them, and our own sentences."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import inspect
import numbers
import os
import typing
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import pydantic.dataclasses
from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from homefold.errors import ConfigError, shown

__all__ = [
    "LARGEST_COUNT",
    "Count",
    "CountFromZero",
    "CountOrNone",
    "Finite",
    "FromZero",
    "FromZeroBelowOne",
    "Integer",
    "Positive",
    "PositiveOrNone",
    "Seed",
    "Share",
    "checked_value",
    "dataclass",
    "hints_of",
    "place_of",
    "require_types",
    "unknown_setting",
]

LARGEST_COUNT = 2**31 - 1
_LARGEST_INTEGER = 2**63 - 1
_LARGEST_FLOAT = 3.4028234663852886e38  # of float32: what is larger is infinite where it is used

Count = Annotated[int, Field(ge=1, le=LARGEST_COUNT)]
CountOrNone = Annotated[int | None, Field(ge=1, le=LARGEST_COUNT)]
CountFromZero = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Integer = Annotated[int, Field(ge=-LARGEST_COUNT, le=LARGEST_COUNT)]
Seed = Annotated[int, Field(ge=-_LARGEST_INTEGER, le=_LARGEST_INTEGER)]
Finite = Annotated[float, Field(ge=-_LARGEST_FLOAT, le=_LARGEST_FLOAT)]
Positive = Annotated[float, Field(gt=0, le=_LARGEST_FLOAT)]
PositiveOrNone = Annotated[float | None, Field(gt=0, le=_LARGEST_FLOAT)]
FromZero = Annotated[float, Field(ge=0, le=_LARGEST_FLOAT)]
FromZeroBelowOne = Annotated[float, Field(ge=0, lt=1)]
Share = Annotated[float, Field(ge=0, le=1)]

C = TypeVar("C")

_STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
_PLAIN = frozenset({bool, int, float, str, type(None)})

_hints: dict[type[Any], Mapping[str, Any]] = {}
_places: dict[type[Any], str] = {}

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(*, frozen: bool) -> Callable[[type[C]], type[C]]:
        """A pydantic dataclass of settings, which says a `ConfigError` where one has no such value.

        A number of numpy becomes Python's, a path its text, and what lists values a tuple. The settings of a part are
        called by the name of the part in the whole that holds it, as in `features.epochs`.
        """

        def make(kind: type[C]) -> type[C]:
            made = pydantic.dataclasses.dataclass(frozen=frozen, config=_STRICT)(kind)
            kinds, hints = hints_of(made), typing.get_type_hints(made, include_extras=True)
            _give_places(made, "")
            signature, validate = inspect.signature(made), made.__init__

            @functools.wraps(validate)
            def __init__(self: C, /, *args: Any, **values: Any) -> None:
                if args:
                    values = signature.bind_partial(*args, **values).arguments
                for name in values:
                    if name not in hints:
                        raise unknown_setting(f"{_before(made)}{name}", hints)
                try:
                    validate(self, **{name: _plain(kinds[name], value) for name, value in values.items()})
                except ValidationError as error:
                    raise _refusal(error, values, hints, _before(made)) from None

            made.__init__ = __init__
            return made

        return make


def _give_places(kind: type[Any], place: str) -> None:
    _places[kind] = place
    for name, hint in hints_of(kind).items():
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            _give_places(hint, f"{place}.{name}" if place else name)


def place_of(kind: type[Any]) -> str:
    """The dotted name of the part that these settings are, as in `features.augmentation`; empty for the whole."""
    return _places.get(kind, "")


def _before(kind: type[Any]) -> str:
    return f"{place_of(kind)}." if place_of(kind) else ""


def hints_of(kind: type[Any]) -> Mapping[str, Any]:
    """The types of a dataclass's fields by name, without their ranges; asked once, as Python takes long to tell."""
    if kind not in _hints:
        _hints[kind] = MappingProxyType(typing.get_type_hints(kind))
    return _hints[kind]


def unknown_setting(name: str, known: Iterable[str]) -> ConfigError:
    """What is said of a setting that there is none of.

    >>> unknown_setting("look.view", ["views", "mirror"])
    ConfigError("there is no setting 'look.view'; there are views, mirror. Did you mean look.views?")
    """
    names = list(known)
    there_are = f"; there are {', '.join(names)}" if names else ""
    part, dot, last = name.rpartition(".")
    close = difflib.get_close_matches(last, names, n=1)
    hint = f" Did you mean {part}{dot}{close[0]}?" if close else ""
    return ConfigError(f"there is no setting {shown(name)}{there_are}.{hint}")


def require_types(config: Any) -> None:
    """Refuse a dataclass with a field that its type does not allow."""
    for name, hint in hints_of(type(config)).items():
        checked_value(hint, getattr(config, name), name)


def checked_value(hint: Any, value: Any, name: str) -> Any:
    """`value` as a plain Python value of its type; a `ConfigError` where it is none.

    Numbers are finite, of numpy or Python, and a boolean is none. A list stands for a tuple, a path for its text. The
    type is bool, int, float, str, a `Literal` of text, with a range or without, or a tuple or an optional of these.

    >>> checked_value(tuple[float, ...], [1, 0.5], "milestones")
    (1.0, 0.5)
    """
    try:
        return _adapter(hint).validate_python(_plain(hint, value))
    except ValidationError as error:
        raise ConfigError(_sentence(error.errors(include_url=False)[0], hint, value, name)) from None


@functools.cache
def _adapter(hint: Any) -> TypeAdapter[Any]:
    return TypeAdapter(hint, config=_STRICT)


def _plain(hint: Any, value: Any) -> Any:
    """`value` as a plain Python value where it stands for one; whatever else, as it is."""
    if type(value) in _PLAIN:
        return value
    if typing.get_origin(hint) is tuple and not isinstance(value, str | bytes | Mapping):
        try:
            return tuple(_plain(None, item) for item in value)
        except TypeError:  # no items
            return value
    if isinstance(value, bool):
        return value
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real):
        return float(value)
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return _NoNumber(value) if hasattr(value, "__float__") else value


class _NoNumber:
    """What pydantic would make a number of, as numpy's booleans; shown as itself."""

    def __init__(self, value: Any) -> None:
        self._value = value

    def __repr__(self) -> str:
        return repr(self._value)


def _refusal(error: ValidationError, values: Mapping[str, Any], hints: Mapping[str, Any], before: str) -> ConfigError:
    first = error.errors(include_url=False)[0]
    if not first["loc"]:  # of settings that fit alone, but not together
        told = first["ctx"]["error"]
        return told if isinstance(told, ConfigError) else ConfigError(str(told))
    name = str(first["loc"][0])
    return ConfigError(_sentence(first, hints[name], values[name], before + name))


def _sentence(error: Any, hint: Any, value: Any, name: str) -> str:
    if dataclasses.is_dataclass(hint):
        return f"{name} must be settings of {hint.__name__}; got {shown(value)}."  # type: ignore[union-attr]
    schema = _adapter(hint).json_schema()
    schema = schema.get("anyOf", [schema])[0]
    if error["loc"] and isinstance(error["loc"][-1], int):
        schema, value = schema["items"], error["input"]
    told = f"{name} must be {_allowed(error, schema)}; got {shown(value)}."
    close = difflib.get_close_matches(value, schema.get("enum", ()), n=1) if isinstance(value, str) else []
    return f"{told} Did you mean {close[0]}?" if close else told


_WORDS = {
    "boolean": "true or false",
    "integer": "a whole number",
    "number": "a finite number",
    "string": "text",
    "object": "an object",
    "array": "a list",
}


def _allowed(error: Any, schema: Mapping[str, Any]) -> str:
    """What the value must be by its JSON schema, as briefly as the error allows."""
    words = _WORDS[schema["type"]]
    if error["type"] in ("greater_than", "greater_than_equal", "less_than", "less_than_equal"):
        if error["ctx"].get("le") in (LARGEST_COUNT, _LARGEST_INTEGER, _LARGEST_FLOAT):
            return f"{words} of at most {error['ctx']['le']}" if schema["type"] == "integer" else words
        return words if schema.get("minimum") == -_LARGEST_FLOAT else _range_words(schema)
    if "enum" in schema:
        return f"one of {', '.join(schema['enum'])}"
    if error["type"] in ("too_short", "too_long"):
        return f"a list of {schema['minItems']} to {schema['maxItems']} values"
    return words


def _range_words(schema: Mapping[str, Any]) -> str:
    """The range in words.

    >>> _range_words({"minimum": 0, "exclusiveMaximum": 1})
    'at least 0 and below 1'
    """
    low = f"at least {schema['minimum']}" if "minimum" in schema else f"above {schema['exclusiveMinimum']}"
    if schema.get("maximum") in (LARGEST_COUNT, _LARGEST_FLOAT):
        return low
    if "minimum" in schema and "maximum" in schema:
        return f"{schema['minimum']} to {schema['maximum']}"
    high = f"at most {schema['maximum']}" if "maximum" in schema else f"below {schema['exclusiveMaximum']}"
    return f"{low} and {high}"
