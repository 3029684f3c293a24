"""The lines of a file of records, each checked as it is read, so that all who use them can rely on their types."""

from __future__ import annotations

import gzip
import json
import lzma
import math
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

from homefold.errors import DataError

__all__ = ["ENDINGS", "is_number", "misfit", "not_a_record", "read_record_lines"]

ENDINGS = (".jsonl", ".jsonl.gz", ".jsonl.xz")
"""What the names of files of records end in."""

_LARGEST = 1e15  # what is summed, shown and drawn stays far from the end of what floats can hold
_LARGEST_SEED = 2**63


def is_number(value: Any) -> TypeGuard[int | float]:
    """Whether a value is a number that can be summed and drawn."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return -_LARGEST <= value <= _LARGEST


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < _LARGEST_SEED


_TEXT, _WHOLE = (_is_text, "text"), (_is_whole, "a whole number")
_NUMBER = (is_number, f"a number of at most {_LARGEST:g}")
_TEXTS = (lambda value: isinstance(value, list) and all(map(_is_text, value)), "a list of names")
_LOOK: dict[str, Any] = {"views": _WHOLE, "textures": _WHOLE, "tints": _WHOLE}
_FACTS: dict[str, Any] = {
    "candidate": {"settings": _TEXT, "number": _WHOLE, "scores": {"*": {"*": _NUMBER}}},
    **dict.fromkeys(("fraction", "shots", "severity", "beta", "epsilon", "mean_iterations"), _NUMBER),
    **dict.fromkeys(("source", "corruption", "split", "variation", "code"), _TEXT),
    "sources": _TEXTS,
    "stages": {"*": {"seconds": _NUMBER}},
    "titles": {"*": _TEXT},
}
_NAMES = ("dataset", "target", "method", "protocol", "selection", "suite", "preset", "backbone", "changes", "run")
_FIELDS: dict[str, Any] = {
    **dict.fromkeys((*_NAMES, "recipe", "hardware", "status", "error", "commit", "command"), _TEXT),
    **dict.fromkeys(("seed", "images"), _WHOLE),
    "config": {"look": _LOOK, "projection": _LOOK},  # of earlier versions
    "facts": _FACTS,
    "seconds": {"*": _NUMBER},
    "versions": {},
}
"""What the fields of a record must be where they are given, a check and its words; `*` stands for every name."""


def misfit(row: Any) -> str:
    """What is wrong with a record that was read from JSON, in words; empty for one that can be used."""
    if not isinstance(row, dict):
        return "it is not an object"
    return _misfit(row, _FIELDS, "it") or ("" if _is_writable(row) else "it holds halves of characters")


def _is_writable(row: dict[str, Any]) -> bool:
    """Whether its text can be written anywhere: JSON can escape what no encoding has."""
    try:
        json.dumps(row, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def _misfit(value: Any, expected: Any, name: str) -> str:
    if value is None:
        return ""
    if not isinstance(expected, dict):
        fits, wanted = expected
        return "" if fits(value) else f"{name} is {_shown(value)}; expected {wanted}"
    if not isinstance(value, dict):
        return f"{name} is {_shown(value)}; expected an object"
    prefix = "" if name == "it" else f"{name}."
    for key, item in value.items():
        check = expected.get(key, expected.get("*"))
        if check is not None and (wrong := _misfit(item, check, f"{prefix}{key}")):
            return wrong
    return ""


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=True) if not isinstance(value, float) or math.isfinite(value) else str(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def read_record_lines(path: Path, containing: str = "") -> Iterator[tuple[int, dict[str, Any]]]:
    """Every whole record of a file and the number of its line; a last line that a crash cut short is left out.

    Args:
        path: of the file, which may be compressed (`.gz`, `.xz`); any other line in it that is no record is a
            `DataError` that names it.
        containing: only those lines that contain this text, plain ASCII; others are not looked into.
    """
    wanted = containing.encode()
    for number, line in enumerate(_lines(path), 1):
        if not line.strip() or wanted not in line:
            continue
        try:
            row = json.loads(line.removesuffix(b"\n").decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if not line.endswith(b"\n"):
                return
            raise not_a_record(path, number, _reason(error)) from None
        if wrong := misfit(row):
            raise not_a_record(path, number, wrong)
        yield number, row


def _lines(path: Path) -> Iterator[bytes]:
    if path.exists() and not path.is_file():
        raise DataError(f"{path} is not a plain file, so it holds no records.")
    packed: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".xz": lzma.open}
    opened = packed.get(path.suffix, open)
    try:
        with opened(path, "rb") as file:
            yield from file
    except (gzip.BadGzipFile, lzma.LZMAError, zlib.error, EOFError) as error:
        raise DataError(f"{path} cannot be unpacked ({error}); it was truncated or edited.") from None


def not_a_record(path: Path | str, number: int, reason: str) -> DataError:
    """The error for a line that cannot be used."""
    return DataError(f"{path}, line {number} is not a run record ({reason}); remove or repair it.")


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeError):
        return "it is not valid UTF-8 text"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    return str(error) if isinstance(error, json.JSONDecodeError) else "a number in it has too many digits"
