"""A method's own hyper-parameters: what they are, and how to change them by name."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from homefold.errors import ConfigError, shown
from homefold.methods.base import Method, TestTimeMethod

__all__ = ["MethodSetting", "method_settings", "with_settings"]

_BETWEEN_VALUES = "/"


@dataclass(frozen=True)
class MethodSetting:
    """A hyper-parameter of a method.

    Args:
        name: what people type.
        default: its value unless they do.
        search: where to look for a better one, in words.
    """

    name: str
    default: Any
    search: str


def method_settings(method: Method) -> tuple[MethodSetting, ...]:
    """The hyper-parameters of a method's own; those of what a test-time method wraps are not among them."""
    found = []
    for item in fields(method):  # type: ignore[arg-type]
        search = item.metadata.get("search")
        if search is None or item.default is MISSING:
            continue
        words = f"{search.low:g} to {search.high:g}{', logarithmic' if search.log else ''}"
        if search.choices:
            words = ", ".join(map(_written, search.choices))
        found.append(MethodSetting(item.name, item.default, words))
    return tuple(found)


def with_settings(method: Method, text: str) -> Method:
    """`method` with the hyper-parameters that `text` changes.

    Args:
        method: what is changed.
        text: `name=value` with commas between; values of a list have slashes between.
    """
    name = method.own_name if isinstance(method, TestTimeMethod) else method.info.name
    known = {setting.name: setting.default for setting in method_settings(method)}
    if not known:
        raise ConfigError(
            f"{name} has no settings of its own; what it trains with is set by dotted names, for all methods or for it "
            f"alone, as in {name}:features.epochs=60."
        )
    values: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise ConfigError(
                f"{name} has no setting {part!r}; write NAME=VALUE with a name among {', '.join(known)}, as in "
                f"{name}:{next(iter(known))}={_written(next(iter(known.values())))}."
            )
        if key in values:
            raise ConfigError(f"{key} is set more than once for {name}; give it one value.")
        values[key] = _parsed(name, key, value, known[key])
    return replace(method, **values)  # type: ignore[type-var]


def _written(value: Any) -> str:
    return _BETWEEN_VALUES.join(map(str, value)) if isinstance(value, tuple) else str(value)


def _parsed(name: str, key: str, text: str, default: Any) -> Any:
    kind = type(default[0] if isinstance(default, tuple) else default)
    try:
        if isinstance(default, tuple):
            return tuple(kind(part) for part in text.split(_BETWEEN_VALUES))
        return kind(text)
    except ValueError:
        what = {int: "a whole number", float: "a number"}.get(kind, kind.__name__)
        raise ConfigError(f"{key} of {name} is {what}, such as {_written(default)}; got {shown(text)}.") from None
