"""Settings given to a command: by name (`--set`), as a flag of that name, or in a file (`--config`)."""

from __future__ import annotations

import dataclasses
import functools
import json
import operator
import tomllib
import typing
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from homefold.cli.ending import UsageError
from homefold.config import (
    HomefoldConfig,
    LookConfig,
    SearchConfig,
    change_settings,
    look_preset,
    parse_setting,
    preset_config,
    search_preset,
)
from homefold.config.migration import current_names
from homefold.config.values import checked_value, hints_of
from homefold.errors import ConfigError

__all__ = [
    "SHORT_NAMES",
    "chosen_look_and_search",
    "fit_settings",
    "inference_settings",
    "is_flag",
    "setting_flags",
    "setting_types",
    "settings_as_words",
]

SHORT_NAMES: Mapping[str, str] = {
    "backbone": "features.backbone",
    "weights": "features.weights",
    "image_size": "preprocessing.image_size",
    "epochs": "features.epochs",
    "batch_size": "features.batch_size",
    "learning_rate": "features.learning_rate",
    "seed": "seed",
}
"""What `homefold fit` calls the settings that people change most."""


def settings_as_words(arguments: Sequence[str], *, short: bool = False) -> list[str]:
    """The words of a command with every flag of a setting as `--set=NAME=VALUE` in its place.

    Args:
        arguments: as they were typed.
        short: whether flags without a dot in their name stand for settings too.

    >>> settings_as_words(["photos", "--features.epochs=5", "--look.no-styles", "--manifold.hidden", "64", "32"])
    ['photos', '--set=features.epochs=5', '--set=look.styles=false', '--set=manifold.hidden=[64,32]']
    """
    found: list[str] = []
    place = 0
    while place < len(arguments):
        word = arguments[place]
        if word == "--":
            return [*found, *arguments[place:]]
        place += 1
        flag, equals, value = word.partition("=")
        plain = flag.replace("_", "-")
        if not flag.startswith("--") or ("." not in flag and not (short and plain in setting_flags())):
            found.append(word)
            continue
        if plain not in setting_flags():
            raise _unknown(plain)
        name, is_negated = setting_flags()[plain]
        hint = setting_types()[name]
        values = [value] if equals else [] if is_negated else _values_at(place, arguments, hint)
        place += 0 if equals else len(values)
        if is_negated and values:
            raise UsageError(f"{flag} takes no value.")
        if not values and hint is bool:
            values = ["false" if is_negated else "true"]
        if not values and typing.get_origin(hint) is not tuple:
            raise UsageError(f"{flag} needs a value.")
        found.append(f"--set={name}={_as_set_takes_it(hint, values)}")
    return found


def is_flag(word: str) -> bool:
    """Whether a word is a flag, and no value such as -1."""
    try:
        float(word)
    except ValueError:
        return word.startswith("-") and word != "-"
    return False


@functools.cache
def setting_types() -> Mapping[str, Any]:
    """The type of every setting by its dotted name."""
    return dict(_leaves(HomefoldConfig, ""))


def _leaves(kind: type[Any], before: str) -> Iterator[tuple[str, Any]]:
    for name, hint in hints_of(kind).items():
        if dataclasses.is_dataclass(hint):
            yield from _leaves(typing.cast("type[Any]", hint), f"{before}{name}.")
        else:
            yield before + name, hint


@functools.cache
def setting_flags() -> Mapping[str, tuple[str, bool]]:
    """For every flag that stands for a setting the setting, and whether it turns it off."""
    found = {}
    for given, name in [*((name, name) for name in setting_types()), *SHORT_NAMES.items()]:
        found[f"--{given}".replace("_", "-")] = (name, False)
        if setting_types()[name] is bool:
            before, dot, last = given.rpartition(".")
            found[f"--{before}{dot}no-{last}".replace("_", "-")] = (name, True)
    return found


def _unknown(flag: str) -> UsageError:
    try:
        change_settings(HomefoldConfig(), {flag.removeprefix("--").replace("-", "_"): None}, names_only=True)
    except ConfigError as error:
        return UsageError(str(error))
    return UsageError(f"{flag} is a part of the settings; name one of them, as homefold settings lists them.")


def _values_at(place: int, arguments: Sequence[str], hint: Any) -> list[str]:
    """The words from `place` on that belong to a flag of a setting of this type."""
    if hint is bool:
        return [word for word in arguments[place : place + 1] if word in ("true", "false")]
    most = len(arguments) if typing.get_origin(hint) is tuple else 1
    end = place
    while end < min(place + most, len(arguments)) and not is_flag(arguments[end]):
        end += 1
    return list(arguments[place:end])


def _as_set_takes_it(hint: Any, words: Sequence[str]) -> str:
    """The words that followed a flag, as one word of `--set`."""
    if typing.get_origin(hint) is tuple:
        if len(words) == 1:
            return words[0]
        (item, *_) = typing.get_args(hint)
        return json.dumps([_value(item, word) for word in words], separators=(",", ":"))
    read, meant = parse_setting(f"x={words[0]}")[1], _value(hint, words[0])
    is_same = read == meant and isinstance(read, str) == isinstance(meant, str)
    return words[0] if is_same else json.dumps(meant)


def _value(hint: Any, word: str) -> Any:
    """What a word is for a setting of this type: `.5` is a number, `5` may be text; else as `--set` has it."""
    kinds = {hint, *typing.get_args(hint)}
    if bool in kinds or not kinds & {int, float}:
        return parse_setting(f"x={word}")[1] if bool in kinds else word
    try:
        return int(word) if int in kinds else float(word)
    except ValueError:
        return parse_setting(f"x={word}")[1]


def fit_settings(preset: str, file: Path | None, words: Sequence[str]) -> tuple[HomefoldConfig, dict[str, Any]]:
    """The preset with what a file says, and with what the words say, which win; and what both say.

    Args:
        preset: its name.
        file: of TOML, whose tables are the parts of the settings.
        words: such as `features.epochs=5`; of two that name the same setting the last one counts.
    """
    said: dict[str, Any] = {}
    if file is not None:
        with _as_usage(f"{file}: "):
            said = current_names(dict(_flat(_read(file))))
            _changed_preset(preset, said)
    with _as_usage():
        said = {**said, **current_names(dict(map(parse_setting, words)))}
        config = _changed_preset(preset, said)
    return config, {name: operator.attrgetter(name)(config) for name in said}


def _changed_preset(preset: str, settings: Mapping[str, Any]) -> HomefoldConfig:
    """The backbone decides what other settings are unless they are named too, so it is named first."""
    backbone = settings.get("features.backbone")
    base = preset_config(preset, {"features.backbone": backbone} if isinstance(backbone, str) else {})
    return change_settings(base, settings)


def inference_settings(words: Sequence[str], command: str) -> dict[str, Any]:
    """Settings for a finished model, which can only be those of look and search; each is checked by itself.

    Args:
        words: such as `look.views=8`.
        command: takes them, as in `predict`.
    """
    hints = {
        f"{part}.{name}": hint
        for part, kind in (("look", LookConfig), ("search", SearchConfig))
        for name, hint in typing.get_type_hints(kind, include_extras=True).items()
    }
    with _as_usage():
        settings = current_names(dict(map(parse_setting, words)))
        change_settings(HomefoldConfig(), settings, names_only=True)
        for name, value in settings.items():
            if name not in hints:
                raise ConfigError(
                    f"homefold {command} cannot change {name}, because the model was trained with it; it takes the "
                    f"settings of look and search, such as look.views=8."
                )
            checked_value(hints[name], value, name)
    return settings


def chosen_look_and_search(
    own: HomefoldConfig, preset: str | None, settings: Mapping[str, Any]
) -> tuple[LookConfig, SearchConfig]:
    """The model's own look and search, or those of a preset, with these settings changed."""
    if preset is not None:
        own = HomefoldConfig(look=look_preset(preset), search=search_preset(preset))
    changed = change_settings(HomefoldConfig(look=own.look, search=own.search), settings)
    return changed.look, changed.search


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"cannot be read ({error.strerror}).") from None
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"is no TOML ({error}).") from None


def _flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield before + name, value


@contextmanager
def _as_usage(before: str = "") -> Iterator[None]:
    """What is wrong with settings is wrong with the command line; `before` says where they stand."""
    try:
        yield
    except ConfigError as error:
        raise UsageError(f"{before}{error}") from None
