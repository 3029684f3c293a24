"""`homefold settings`: every setting of a fit, explained."""

from __future__ import annotations

import dataclasses
import difflib
import json
import textwrap
import typing
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from types import NoneType
from typing import Annotated, Any

from homefold.cli.ending import UsageError
from homefold.cli.output import print_json, result_console
from homefold.cli.parsing import DebugFlag, JsonFlag, Positional, explanations, parse
from homefold.config import HomefoldConfig, list_presets, preset_config
from homefold.config.migration import RENAMED
from homefold.config.values import hints_of

__all__ = ["Setting", "SettingsOptions", "list_settings", "run", "written"]


@dataclass(frozen=True)
class SettingsOptions:
    """List every setting of a fit: what it does, what it may be, its default and what each preset sets.

    Example: homefold settings features.epochs style
    """

    names: Annotated[tuple[str, ...], Positional("[NAME …]")] = ()
    """Show these alone: settings, or parts such as features or features.augmentation."""
    json: JsonFlag = False
    debug: DebugFlag = False


@dataclass(frozen=True)
class Setting:
    """One setting.

    Args:
        name: as people write it, `features.epochs`.
        about: what it does.
        values: what it may be, in words.
        default: that of `fit`, whose preset is `default`.
        presets: what those other presets set that set another value.
    """

    name: str
    about: str
    values: str
    default: Any
    presets: dict[str, Any]

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
    plain = preset_config()
    presets = {name: preset_config(name) for name in list_presets()}
    return [
        Setting(name, about, _values(hint), _at(plain, name), _changes(plain, presets, name))
        for name, about, hint in _leaves(HomefoldConfig, "")
    ]


def _leaves(kind: type[Any], before: str) -> Iterator[tuple[str, str, Any]]:
    """Name, explanation and type of each setting."""
    about = explanations(kind)
    for field in dataclasses.fields(kind):
        hint = hints_of(kind)[field.name]
        if dataclasses.is_dataclass(hint):
            yield from _leaves(typing.cast("type[Any]", hint), f"{before}{field.name}.")
        else:
            yield before + field.name, about[field.name], hint


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


def _at(config: HomefoldConfig, name: str) -> Any:
    value: Any = config
    for part in name.split("."):
        value = getattr(value, part)
    return value


def _changes(plain: HomefoldConfig, presets: dict[str, HomefoldConfig], name: str) -> dict[str, Any]:
    values = {preset: _at(config, name) for preset, config in presets.items()}
    return {preset: value for preset, value in values.items() if value != _at(plain, name)}


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
