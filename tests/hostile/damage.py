"""Ways to damage a file, and values that nobody expects, for every family."""

from __future__ import annotations

import math
import os
import random
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Damage = Callable[[Path], object]
Way = tuple[str | int, ...]

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
ODD_JSON = ODD_VALUES | {"null": None, "object": {"a": {"b": 1}}, "fraction": 0.5, "surrogate": "\ud800"}

_DEEP = 100_000
ODD_TEXTS: dict[str, bytes] = {
    "brackets": b"[" * _DEEP,
    "closed-brackets": b"[" * _DEEP + b"]" * _DEEP,
    "braces": b'{"a":' * _DEEP + b"1" + b"}" * _DEEP,
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


def garbage(size: int) -> bytes:
    """The same noise every time."""
    return random.Random(size).randbytes(size)


CONTENT_DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "one-byte": lambda content: content[:1],
    "tenth": lambda content: content[: len(content) // 10],
    "half": lambda content: content[: len(content) // 2],
    "last-byte-gone": lambda content: content[:-1],
    "garbage": lambda content: garbage(len(content)),
    "zeros": lambda content: bytes(len(content)),
    "garbage-behind": lambda content: content + garbage(100),
}


def rewritten(change: Callable[[bytes], bytes]) -> Damage:
    """The file with its content changed."""
    return lambda path: path.write_bytes(change(path.read_bytes()))


def _replaced(make: Damage) -> Damage:
    return lambda path: (path.unlink(), make(path))


PLACE_DAMAGE: dict[str, Damage] = {
    "gone": lambda path: path.unlink(),
    "folder": _replaced(Path.mkdir),
    "full-folder": _replaced(lambda path: shutil.copytree(path.parent, path)),
    "pipe": _replaced(os.mkfifo),
    "loop": _replaced(lambda path: path.symlink_to(path.name)),
    "dangling-link": _replaced(lambda path: path.symlink_to("nowhere")),
    "endless": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "nothing": _replaced(lambda path: path.symlink_to("/dev/null")),
}
FILE_DAMAGE = {name: rewritten(change) for name, change in CONTENT_DAMAGE.items()} | PLACE_DAMAGE
TEXT_DAMAGE: dict[str, Damage] = {
    f"text-{name}": rewritten(lambda content, text=text: text) for name, text in ODD_TEXTS.items()
}


def leaves(value: Any, way: Way = ()) -> Iterator[Way]:
    """The way to every value of nested dicts that is none, or an empty one."""
    if not isinstance(value, dict) or not value:
        yield way
        return
    for key, item in value.items():
        yield from leaves(item, (*way, key))


def put(value: Any, way: Way, leaf: Any) -> None:
    """Replace what lies at the end of `way` in nested dicts and lists."""
    *above, last = way
    for key in above:
        value = value[key]
    value[last] = leaf


def dotted(way: Way) -> str:
    """A way as people write it."""
    return ".".join(map(str, way))


def some(values: dict[str, Any], i: int, count: int) -> list[tuple[str, Any]]:
    """A few of the values, others for each `i`."""
    items = list(values.items())
    return [items[(3 * i + 5 * j) % len(items)] for j in range(count)]
