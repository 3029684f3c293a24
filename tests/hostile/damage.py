"""Ways to damage a file, and values that nobody expects, for every family."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ODD_VALUES: dict[str, Any] = {
    "nan": math.nan,
    "inf": math.inf,
    "minus-inf": -math.inf,
    "empty-text": "",
    "text": "many",
    "negative": -1,
    "zero": 0,
    "huge": 10**30,
    "list": [1, 2],
    "true": True,
}
ODD_JSON: dict[str, Any] = {
    **ODD_VALUES,
    "null": None,
    "object": {"a": {"b": 1}},
    "fraction": 0.5,
    "surrogate": "\ud800",
}


def garbage(size: int) -> bytes:
    """The same noise every time."""
    return random.Random(size).randbytes(size)


def _replaced(path: Path, make: Callable[[Path], object]) -> None:
    path.unlink()
    make(path)


def _content(change: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    return lambda path: _discard(path.write_bytes(change(path.read_bytes())))


def _discard(value: object) -> None:
    """For lambdas that return nothing."""


CONTENT_DAMAGE: dict[str, Callable[[Path], None]] = {
    "empty": _content(lambda content: b""),
    "one-byte": _content(lambda content: content[:1]),
    "tenth": _content(lambda content: content[: len(content) // 10]),
    "half": _content(lambda content: content[: len(content) // 2]),
    "last-byte-gone": _content(lambda content: content[:-1]),
    "garbage": _content(lambda content: garbage(len(content))),
    "zeros": _content(lambda content: bytes(len(content))),
    "garbage-behind": _content(lambda content: content + garbage(100)),
}
PLACE_DAMAGE: dict[str, Callable[[Path], None]] = {
    "gone": lambda path: path.unlink(),
    "folder": lambda path: _replaced(path, Path.mkdir),
    "full-folder": lambda path: _replaced(path, lambda place: shutil.copytree(path.parent, place)),
    "pipe": lambda path: _replaced(path, os.mkfifo),
    "loop": lambda path: _replaced(path, lambda place: place.symlink_to(place.name)),
    "dangling-link": lambda path: _replaced(path, lambda place: place.symlink_to("nowhere")),
    "endless": lambda path: _replaced(path, lambda place: place.symlink_to("/dev/zero")),
    "nothing": lambda path: _replaced(path, lambda place: place.symlink_to("/dev/null")),
}
FILE_DAMAGE = CONTENT_DAMAGE | PLACE_DAMAGE

DEEP = 100_000
ODD_JSON_TEXTS: dict[str, bytes] = {
    "brackets": b"[" * DEEP,
    "closed-brackets": b"[" * DEEP + b"]" * DEEP,
    "braces": b'{"a":' * DEEP + b"1" + b"}" * DEEP,
    "5000-digits": b"9" * 5000,
    "nan": b"NaN",
    "null": b"null",
    "number": b"1",
    "text": b'"homefold-model"',
    "list": b"[]",
    "object": b"{}",
    "latin-1": '{"name": "é"}'.encode("latin-1"),
    "utf-16": '{"a": 1}'.encode("utf-16"),
    "nul": b"\x00",
    "half-a-string": b'{"a": "b',
    "two-objects": b"{} {}",
    "blank": b" \n\t ",
}


def leaves(value: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """The way to every value of nested dicts that is none, or an empty one."""
    if not isinstance(value, dict) or not value:
        yield path
        return
    for key, item in value.items():
        yield from leaves(item, (*path, key))


def put(value: Any, path: tuple[str | int, ...], leaf: Any) -> None:
    """Replace what lies at `path` in nested dicts and lists."""
    *above, last = path
    for key in above:
        value = value[key]
    value[last] = leaf


def dotted(path: tuple[str | int, ...]) -> str:
    """A path as people write it."""
    return ".".join(map(str, path))
