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
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from homefold.cli.ending import UsageError
from homefold.cli.given_settings import SHORT_NAMES, is_flag, setting_flags, settings_as_words
from homefold.cli.output import note
from homefold.config.migration import current_word
from homefold.config.values import checked_value
from homefold.data.paths import given_path
from homefold.errors import ConfigError, cut, shown
from homefold.runtime.plugins import load_plugins

__all__ = [
    "Arg",
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
    """How an argument is shown, beside the type of its field, which gives all that is not said here.

    Args:
        metavar: what stands for its value.
        default: what the help says of its default.
        help: what it does; by default the docstring below the field.
        name: that of the field.
        kind: type of its value.
        is_needed: whether it has to be given; no word of a list has to.
    """

    metavar: str = ""
    default: str | None = None
    help: str = ""
    name: str = ""
    kind: Any = str
    is_needed: bool = False

    @property
    def flag(self) -> str:
        """What it is called by the person who gives it."""
        return f"--{self.name}".replace("_", "-")

    @property
    def is_list(self) -> bool:
        """Whether it takes several words."""
        return typing.get_origin(self.kind) is tuple


class Positional(Arg):
    """One that is known by its place instead of a flag."""

    @property
    def flag(self) -> str:
        """What stands for its value."""
        return self.metavar


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

T = TypeVar("T")
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
    flags = ["--debug", *(arg.flag for arg in expected if not isinstance(arg, Positional))]
    if "--set" in flags:
        words = settings_as_words(words, short=short_flags is not None)
    given = vars(parser.parse_intermixed_args(_with_known_flags(command, words, flags)))
    if missing := [_shown(arg) for arg in expected if arg.is_needed and given[arg.name] is None]:
        raise UsageError(f"homefold {command} lacks what is required: {', '.join(missing)}.")
    found = options(**{arg.name: _read(arg, given[arg.name]) for arg in expected if given[arg.name] is not None})
    load_plugins(getattr(found, "plugin", ()))
    return found


def parser_of(options: type[Any], command: str, short_flags: ShortFlags | None = None) -> argparse.ArgumentParser:
    """What writes the help, and reads the words once settings among them are words of `--set`."""
    expected, about = _arguments_of(options), explanations(options)
    needed = [_shown(arg) for arg in expected if arg.is_needed or isinstance(arg, Positional)]
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
    for arg in expected:
        help = f"{arg.help or about[arg.name]} {arg.default}".strip().replace("%", "%%")
        if arg.kind is bool:
            group.add_argument(arg.flag, action="store_true", default=None, help=help)
        elif isinstance(arg, Positional):
            group.add_argument(arg.name, nargs="*" if arg.is_list else "?", metavar=arg.metavar, help=help)
        elif arg.is_list:
            group.add_argument(arg.flag, nargs="+", action="extend", metavar=arg.metavar, help=help)
        else:
            group.add_argument(arg.flag, metavar=arg.metavar, help=help)
        if arg.name == "set" and short_flags is not None:
            for flag, help in short_flags().items():
                group.add_argument(flag, metavar="VALUE", help=help.replace("%", "%%"))
    # Wherever it stands, the command as a whole has seen it already.
    group.add_argument("--debug", action="store_true", help="Show the whole traceback of an error.")
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


def _arguments_of(options: type[Any]) -> list[Arg]:
    found = []
    hints = typing.get_type_hints(options, include_extras=True)
    for field in dataclasses.fields(options):
        hint = hints[field.name]
        kind, arg = typing.get_args(hint) if typing.get_origin(hint) is Annotated else (hint, Arg())
        kind = typing.get_args(kind)[0] if NoneType in typing.get_args(kind) else kind
        says_nothing = field.default in (MISSING, None, (), "") or field.default is False
        filled = replace(
            arg,
            name=field.name,
            kind=kind,
            metavar=arg.metavar or _METAVARS.get(kind) or ",".join(typing.get_args(kind)),
            default=arg.default or ("" if says_nothing or arg.default == "" else f"(default: {field.default})"),
        )
        found.append(replace(filled, is_needed=field.default is MISSING and not filled.is_list))
    return found


def _shown(arg: Arg) -> str:
    """As it stands on a command line."""
    return arg.flag if isinstance(arg, Positional) else f"{arg.flag} {arg.metavar}"


def _read(arg: Arg, value: Any) -> Any:
    """What argparse found, as a value of the field."""
    if isinstance(value, list):
        item = replace(arg, kind=typing.get_args(arg.kind)[0])
        return tuple(_read(item, word) for word in value)
    if arg.kind is bool or arg.kind is str:
        return value
    if arg.kind is Path:
        return given_path(value)
    if arg.kind in (int, float):
        try:
            return arg.kind(value)
        except ValueError:
            what = "whole number" if arg.kind is int else "number"
            raise UsageError(f"{arg.flag} must be a {what}; got {shown(value)}.") from None
    try:
        return checked_value(arg.kind, value, arg.flag)
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
    found: list[str] = []
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
