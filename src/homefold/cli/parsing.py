"""From the words of a command line to a frozen dataclass, and the flags that several commands share."""

from __future__ import annotations

import sys
import typing
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import Annotated, TypeVar

import tyro
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from homefold.cli.output import note
from homefold.config.migration import current_word
from homefold.data.paths import given_path
from homefold.runtime.plugins import load_plugins

__all__ = [
    "DebugFlag",
    "DeviceFlag",
    "JsonFlag",
    "Names",
    "OptionalFloat",
    "OptionalPath",
    "PluginFlag",
    "SkipBadFlag",
    "Switch",
    "flatten",
    "parse",
    "plugins_in",
    "words_after",
]

Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
"""A flag that is off unless it is given."""

OptionalPath = Annotated[Path | None, tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")]
OptionalFloat = Annotated[float | None, tyro.conf.DisallowNone, tyro.conf.arg(help_behavior_hint="")]
"""Values that may be left out, but not given as `None`."""

Names = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction]
"""Names given after one flag, after the flag repeated, or both: `flatten` makes one list of them."""

DeviceFlag = Annotated[
    str, tyro.conf.arg(help="Where to compute: auto (a GPU if there is one), cpu, cuda, cuda:N or mps.")
]
JsonFlag = Annotated[Switch, tyro.conf.arg(help="Print JSON on standard output, and nothing else there.")]
SkipBadFlag = Annotated[
    Switch, tyro.conf.arg(help="Leave out images that cannot be read, name and count them, and go on.")
]
PluginFlag = Annotated[
    Names,
    tyro.conf.arg(
        metavar="FILE.py …",
        help_behavior_hint="",
        help="Python files to run first, which register things of your own (docs/adding.md); of a model too.",
    ),
]
DebugFlag = Annotated[Switch, tyro.conf.arg(help="Show the whole traceback of an error.")]

T = TypeVar("T")

_registry = ConstructorRegistry()


@_registry.primitive_rule
def _number_or_none(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[float | None] | None:
    """A number that a setting may do without is spelled as its description has it, `none`; `None` is read as well."""
    members = set(typing.get_args(info.type))
    number = next((kind for kind in (int, float) if members == {kind, NoneType}), None)
    if number is None or tyro.conf.DisallowNone in info.markers:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=f"none|{number.__name__.upper()}",
        instance_from_str=lambda words: None if words[0].lower() == "none" else number(words[0]),
        is_instance=lambda value: value is None or type(value) is number,
        str_from_instance=lambda value: ["none" if value is None else str(value)],
    )


@_registry.primitive_rule
def _path(info: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Path] | None:
    """As the library takes one: not empty, and `~` is a home folder also where the shell left it, as in `--out=~/m`."""
    if info.type is not Path:
        return None
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar="PATH",
        instance_from_str=lambda words: given_path(words[0]),
        is_instance=lambda value: isinstance(value, Path),
        str_from_instance=lambda value: [str(value)],
    )


def parse(options: type[T], command: str, arguments: Sequence[str], default: T | None = None) -> T:
    """Read `arguments` into an `options`; ends the process (`SystemExit`) after `--help` and after a usage error.

    Args:
        options: a dataclass whose docstring describes the command and whose fields are its flags.
        command: its name, as in `homefold fit`.
        arguments: the words after that name.
        default: values to take where a flag is not given; the dataclass's own by default.
    """
    if not {"-h", "--help"} & set(arguments):
        _refuse_empty(command, arguments)
    arguments = _with_current_names(arguments)
    missing = tyro.MISSING_NONPROP if default is None else default
    found = tyro.cli(options, prog=f"homefold {command}", args=list(arguments), default=missing, registry=_registry)
    load_plugins(flatten(getattr(found, "plugin", ())))
    return found


def plugins_in(arguments: Sequence[str]) -> tuple[str, ...]:
    """The files that --plugin names, for those who need what they register before all else is parsed.

    >>> plugins_in(["photos", "--plugin", "a.py", "b.py", "--out", "model", "--plugin=c.py"])
    ('a.py', 'b.py', 'c.py')
    """
    return words_after("--plugin", arguments)


def words_after(wanted: str, arguments: Sequence[str]) -> tuple[str, ...]:
    """What the flag `wanted` is given, wherever it stands and however often."""
    found, is_named = [], False
    for word in arguments:
        flag, _, value = word.partition("=")
        if word.startswith("--"):
            is_named, word = flag == wanted, value
        if is_named and word:
            found.append(word)
    return tuple(found)


def _with_current_names(arguments: Sequence[str]) -> list[str]:
    """The words with every setting called as it is now; says once which had another name."""
    current = [current_word(word) for word in arguments]
    changed = dict.fromkeys(f"{old} is {new} now" for old, new in zip(arguments, current, strict=True) if old != new)
    if changed:
        note(f"{'; '.join(changed)}.")
    return current


def _refuse_empty(command: str, arguments: Sequence[str]) -> None:
    """An empty word would mean the current folder, or nothing at all: most often it is a variable that was not set."""
    for before, word in pairwise(["", *arguments]):
        flag, equals, value = word.partition("=")
        if word == "" or (word.startswith("--") and equals and not value):
            after = f" after {before}" if word == "" and before else f" for {flag}" if word else ""
            print(f"error: homefold {command} got an empty value{after}; is a variable not set?", file=sys.stderr)
            raise SystemExit(2)


def flatten(names: tuple[tuple[str, ...], ...]) -> tuple[str, ...]:
    """Every name once, in the order given.

    >>> flatten((("a", "b"), ("c", "a")))
    ('a', 'b', 'c')
    """
    return tuple(dict.fromkeys(name for group in names for name in group))
