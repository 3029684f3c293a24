"""From the words of a command line to a frozen dataclass, by argparse, and the flags that several commands share."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import difflib
import inspect
import shutil
import textwrap
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from itertools import pairwise
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TypeVar

from homefold.cli.ending import UsageError
from homefold.cli.given_settings import SHORT_NAMES, is_flag, setting_flags, settings_as_words
from homefold.cli.output import note
from homefold.config.migration import current_word
from homefold.config.values import checked_value
from homefold.data.paths import given_path
from homefold.errors import ConfigError, cut, shown
from homefold.runtime.plugins import load_plugins

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

__all__ = [
    "Arg",
    "DebugFlag",
    "DeviceFlag",
    "JsonFlag",
    "Names",
    "PluginFlag",
    "Positional",
    "ProjectionPresetFlag",
    "SetInferenceFlag",
    "SkipBadFlag",
    "explanations",
    "parse",
    "parser_of",
    "unique",
]


@dataclass(frozen=True)
class Arg:
    """How an argument is shown, beside the type of its field.

    Args:
        metavar: what stands for its value.
        default: what the help says of its default; None for the field's own, where that says something.
        help: what it does; empty for the docstring below the field.
    """

    metavar: str = ""
    default: str | None = None
    help: str = ""


class Positional(Arg):
    """One that is known by its place instead of a flag."""


Names = tuple[str, ...]
"""Words given after one flag, after the flag repeated, or both."""

DeviceFlag = Annotated[
    str, Arg("DEVICE", "", help="Where to compute: auto (a GPU if there is one; default), cpu, cuda, cuda:N or mps.")
]
JsonFlag = Annotated[bool, Arg(help="Print JSON on standard output, and nothing else there.")]
SkipBadFlag = Annotated[bool, Arg(help="Leave out images that cannot be read, name and count them, and go on.")]
PluginFlag = Annotated[Names, Arg("FILE.py", help="Python files to run first, which register things (docs/adding.md).")]
ProjectionPresetFlag = Annotated[
    Literal["default", "paper", "authors", "restarts"] | None,
    Arg(
        "NAME",
        help="Settings of look and search instead of the model's: default (one encoder start), paper (Algorithm 1 to "
        "the letter), authors (the steps of the released scripts) or restarts (eight random starts).",
    ),
]
SetInferenceFlag = Annotated[
    Names,
    Arg(
        "NAME=VALUE",
        help="Settings of look and search to change, such as look.views=8 (or --look.views 8); homefold settings look "
        "search lists and explains them.",
    ),
]
DebugFlag = Annotated[bool, Arg(help="Show the whole traceback of an error.")]

T = TypeVar("T", bound="DataclassInstance")
ShortFlags = Callable[[], Mapping[str, str]]


def parse(options: type[T], command: str, arguments: Sequence[str], short_flags: ShortFlags | None = None) -> T:
    """Read `arguments` into an `options`; ends the process (`SystemExit`) after `--help`.

    Args:
        options: a dataclass whose docstring describes the command and whose fields are its arguments. With a field
            `set` it takes settings, whose flags become words of that field.
        command: its name, as in `homefold fit`.
        arguments: the words after that name.
        short_flags: what the help says of flags that stand for a setting although their name has no dot; None where
            no flag does.
    """
    parser = parser_of(options, command, short_flags)
    if {"-h", "--help"} & set(arguments):
        parser.print_help()
        raise SystemExit(0)
    words = _with_current_names(arguments)
    _refuse_empty(command, words)
    expected = _arguments_of(options)
    flags = [each.flag for each in expected if not each.is_positional]
    if "--set" in flags:
        words = settings_as_words(words, short=short_flags is not None)
    given = vars(parser.parse_intermixed_args(_with_known_flags(command, words, flags)))
    if missing := [each.shown for each in expected if each.is_needed and given[each.name] is None]:
        raise UsageError(f"homefold {command} lacks what is required: {', '.join(missing)}.")
    found = options(**{each.name: each.read(given[each.name]) for each in expected if given[each.name] is not None})
    load_plugins(getattr(found, "plugin", ()))
    return found


def parser_of(options: type[Any], command: str, short_flags: ShortFlags | None = None) -> argparse.ArgumentParser:
    """What writes the help, and reads the words once settings among them are words of `--set`."""
    expected, about = _arguments_of(options), explanations(options)
    needed = [each.shown for each in expected if each.is_needed or each.is_positional]
    parser = _Parser(
        prog=f"homefold {command}",
        usage=f"homefold {' '.join([command, *needed, '[options]'])}",
        description=inspect.getdoc(options),
        formatter_class=_Formatter,
        allow_abbrev=False,
        add_help=False,
    )
    group = parser.add_argument_group("arguments")
    group.add_argument("-h", "--help", action="help", help="Show this.")
    for each in expected:
        given: dict[str, Any] = {"help": f"{each.arg.help or about[each.name]} {each.says}".strip().replace("%", "%%")}
        if each.kind is bool:
            given |= {"action": "store_true", "default": None}
        elif each.is_positional:
            given |= {"metavar": each.arg.metavar, "nargs": "*" if each.is_list else "?"}
        elif each.is_list:
            given |= {"metavar": each.arg.metavar, "nargs": "+", "action": "extend"}
        else:
            given |= {"metavar": each.arg.metavar}
        group.add_argument(each.name if each.is_positional else each.flag, **given)
        if each.name == "set" and short_flags is not None:
            for flag, help in short_flags().items():
                group.add_argument(flag, metavar="VALUE", help=help.replace("%", "%%"))
    return parser


def explanations(kind: type[Any]) -> dict[str, str]:
    """The docstring below each field of a dataclass, by the field's name."""
    (made,) = ast.parse(textwrap.dedent(inspect.getsource(kind))).body
    assert isinstance(made, ast.ClassDef)
    found = {}
    for field, below in zip(made.body, made.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and isinstance(below, ast.Expr):
            found[field.target.id] = " ".join(ast.literal_eval(below.value).split())
    return found


def unique(names: Iterable[str]) -> Names:
    """Every name once, in the order given.

    >>> unique(["a", "b", "a"])
    ('a', 'b')
    """
    return tuple(dict.fromkeys(names))


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say it as every other error is said."""
        told = message.removeprefix("argument ").replace(":", "", 1) if message.startswith("argument ") else message
        raise UsageError(f"{self.prog}: {told}.")


class _Formatter(argparse.HelpFormatter):
    """Argparse's layout, with paragraphs in the description, and `…` where several words go."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=26, width=min(100, shutil.get_terminal_size((100, 24)).columns))

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(text, width, break_on_hyphens=False)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(textwrap.fill(paragraph, width) for paragraph in text.split("\n\n"))

    def _format_args(self, action: argparse.Action, default_metavar: str) -> str:
        return f"{action.metavar} …" if action.nargs == "+" else str(action.metavar)


_METAVARS = {int: "N", float: "NUMBER", Path: "PATH"}


@dataclass(frozen=True)
class _Argument:
    """A field of a command's options."""

    name: str
    kind: Any
    arg: Arg
    default: Any

    @property
    def flag(self) -> str:
        return f"--{self.name}".replace("_", "-")

    @property
    def shown(self) -> str:
        return self.arg.metavar if self.is_positional else f"{self.flag} {self.arg.metavar}"

    @property
    def is_positional(self) -> bool:
        return isinstance(self.arg, Positional)

    @property
    def is_list(self) -> bool:
        return typing.get_origin(self.kind) is tuple

    @property
    def is_needed(self) -> bool:
        return self.default is MISSING and not self.is_list

    @property
    def says(self) -> str:
        """What the help says of the default."""
        if self.arg.default is not None:
            return self.arg.default
        if self.default in (MISSING, None, (), "") or self.default is False:
            return ""
        return f"(default: {self.default})"

    def read(self, value: Any) -> Any:
        """What argparse found, as a value of the field."""
        if isinstance(value, list):
            return tuple(_read(typing.get_args(self.kind)[0], word, self.flag) for word in value)
        return _read(self.kind, value, self.arg.metavar if self.is_positional else self.flag)


def _arguments_of(options: type[Any]) -> list[_Argument]:
    found: list[_Argument] = []
    hints = typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        hint = hints[field.name]
        kind, arg = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint, Arg())
        kind = typing.get_args(kind)[0] if NoneType in typing.get_args(kind) else kind
        choices = "{" + ",".join(typing.get_args(kind)) + "}" if typing.get_origin(kind) is Literal else ""
        arg = replace(arg, metavar=arg.metavar or choices or _METAVARS.get(kind, ""))
        found.append(_Argument(field.name, kind, arg, field.default))
    return found


def _read(kind: Any, word: Any, flag: str) -> Any:
    if kind is Path:
        return given_path(word)
    if kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            what = "whole number" if kind is int else "number"
            raise UsageError(f"{flag} must be a {what}; got {shown(word)}.") from None
    try:
        return checked_value(kind, word, flag)
    except ConfigError as error:
        raise UsageError(str(error)) from None


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
            raise UsageError(f"homefold {command} got an empty value{after}; is a variable not set?")


def _with_known_flags(command: str, words: Sequence[str], flags: Sequence[str]) -> list[str]:
    """The words with each flag as the help spells it; refuses one that there is not."""
    found = []
    for place, word in enumerate(words):
        if word == "--":
            return [*found, *words[place:]]
        flag, equals, value = word.partition("=")
        spelled = flag.replace("_", "-")
        if not is_flag(word):
            found.append(word)
        elif spelled in flags:
            found.append(spelled + equals + value)
        else:
            raise UsageError(f"homefold {command} has no flag {cut(flag)}.{_hint(command, spelled, flags)}")
    return found


def _hint(command: str, flag: str, flags: Sequence[str]) -> str:
    name = flag.removeprefix("--").replace("-", "_")
    if "--set" in flags and "." in SHORT_NAMES.get(name, ""):
        return f" Did you mean --{SHORT_NAMES[name]}?".replace("_", "-")
    of_settings = [each for each in setting_flags() if "." in each or command == "fit"] if "--set" in flags else []
    close = difflib.get_close_matches(flag, [*flags, *of_settings], n=1)
    return f" Did you mean {close[0]}?" if close else f" homefold {command} --help lists them."
