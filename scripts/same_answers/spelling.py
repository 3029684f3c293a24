"""How two checkouts may spell the same thing: the only place that knows more than one spelling."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from importlib import import_module
from typing import Any

__all__ = ["load_digits", "setting_names", "setting_words", "spelled"]

_SECTIONS = {"projection": ("projection", "search", "look", "projection.search", "projection.look")}
_DIGITS_MODULES = ("homefold.data", "homefold.data.digits_mini", "homefold.data.datasets.digits_mini")


def spelled(name: str, known: Collection[str]) -> str:
    """The setting `name` as a checkout calls it whose settings have the dotted names `known`."""
    section, _, rest = name.partition(".")
    candidates = [f"{other}.{rest}" for other in _SECTIONS.get(section, (section,))]
    for candidate in candidates:
        if candidate in known:
            return candidate
    raise LookupError(f"the checkout has no setting {' nor '.join(candidates)}")


def setting_words(settings: Mapping[str, Any], known: Collection[str], help_text: str) -> list[str]:
    """Command-line words for settings: `--set NAME=VALUE` where the command's help offers it, else a flag each."""
    named = {spelled(name, known): value for name, value in settings.items()}
    if "--set" in help_text:
        return [word for name, value in named.items() for word in ("--set", f"{name}={value}")]
    return [word for name, value in named.items() for word in (f"--{name.replace('_', '-')}", str(value))]


def setting_names(config: Any, before: str = "") -> Iterator[str]:
    """The dotted name of every setting of a configuration."""
    for name in config.__dataclass_fields__:
        value = getattr(config, name)
        if hasattr(value, "__dataclass_fields__"):
            yield from setting_names(value, f"{before}{name}.")
        else:
            yield before + name


def load_digits() -> Any:
    """The embedded dataset, from whichever module has it."""
    for module in _DIGITS_MODULES:
        with contextlib.suppress(ImportError, AttributeError):
            return import_module(module).load_digits_mini()
    raise ImportError(f"load_digits_mini is in none of {', '.join(_DIGITS_MODULES)}")
