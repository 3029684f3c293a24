"""`homefold settings`: every setting of a fit, explained."""

from __future__ import annotations

import difflib
import json
import textwrap
import typing
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter
from types import NoneType
from typing import Annotated, Any

from homefold.cli.ending import UsageError
from homefold.cli.given_settings import setting_types
from homefold.cli.output import print_json, result_console
from homefold.cli.parsing import JsonFlag, Names, Positional, explanations, parse
from homefold.config import list_presets, preset_config
from homefold.config.migration import RENAMED

__all__ = ["Setting", "SettingsOptions", "list_settings", "run", "written"]


@dataclass(frozen=True)
class SettingsOptions:
    """List every setting of a fit: what it does, what it may be, its default and what each preset sets.

    Example: homefold settings features.epochs style
    """

    names: Annotated[Names, Positional("[NAME …]")] = ()
    """Show these alone: settings, or parts such as features or features.augmentation."""
    json: JsonFlag = False


@dataclass(frozen=True)
class Setting:
    """One setting."""

    name: str
    about: str
    values: str
    """What it may be, in words."""
    default: Any
    presets: dict[str, Any]
    """What the other presets set, where that is not the default."""

    @property
    def defaults(self) -> str:
        """The default, and what presets set, as people write it."""
        by_value: dict[str, list[str]] = {}
        for preset, value in self.presets.items():
            by_value.setdefault(written(value), []).append(preset)
        others = [f"{', '.join(presets)}: {value}" for value, presets in by_value.items()]
        return "; ".join([written(self.default), *others])


def run(arguments: Sequence[str]) -> int:
    """Print the settings that were asked for."""
    options = parse(SettingsOptions, "settings", arguments)
    settings = list_settings()
    chosen: dict[str, Setting] = {}
    for asked in options.names:
        name = RENAMED.get(asked, asked)
        found = {each.name: each for each in settings if f"{each.name}.".startswith(f"{name}.")}
        if not found:
            raise _unknown(asked, [each.name for each in settings])
        chosen |= found
    shown = list(chosen.values()) if options.names else settings
    if options.json:
        print_json({"settings": [asdict(setting) for setting in shown]})
        return 0
    console = result_console()
    for setting in shown:
        console.print(f"{setting.name}: {setting.values} (default: {setting.defaults})", soft_wrap=True)
        console.print(textwrap.indent(textwrap.fill(setting.about, 96), "    "), soft_wrap=True)
    return 0


def list_settings() -> list[Setting]:
    """Every setting in the order of the configuration."""
    plain, presets = preset_config(), {name: preset_config(name) for name in list_presets()}
    about: dict[str, dict[str, str]] = {}
    found = []
    for name, hint in setting_types().items():
        of, (part, _, field) = attrgetter(name), name.rpartition(".")
        if part not in about:
            about[part] = explanations(type(attrgetter(part)(plain) if part else plain))
        changes = {preset: of(config) for preset, config in presets.items() if of(config) != of(plain)}
        found.append(Setting(name, about[part][field], _values(hint), of(plain), changes))
    return found


_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "none"}


def _values(hint: Any) -> str:
    """What a setting of this type may be."""
    inner = typing.get_args(hint)
    if not inner:
        return _WORDS[hint]
    if typing.get_origin(hint) is typing.Literal:
        return ", ".join(inner[:-1]) + f" or {inner[-1]}"
    if typing.get_origin(hint) is tuple:
        return f"a list, each {_values(inner[0])}"
    return " or ".join(_values(part) for part in inner)


def written(value: Any) -> str:
    """A value as `--set` takes it."""
    if isinstance(value, tuple):
        return "/".join(value) if value and isinstance(value[0], str) else json.dumps(value)
    return str(value).lower() if value is None or isinstance(value, bool) else str(value)


def _unknown(name: str, known: Sequence[str]) -> UsageError:
    parts = dict.fromkeys(
        ".".join(words[:count]) for words in (k.split(".") for k in known) for count in range(1, len(words) + 1)
    )
    close = difflib.get_close_matches(name, parts, n=1)
    hint = f" Did you mean {close[0]}?" if close else " homefold settings lists all of them."
    return UsageError(f"there is no setting {name!r}.{hint}")
