"""Paths that people give, and what they lead to: an empty one is no folder, and a pipe is never waited for."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from homefold.errors import DataError

__all__ = ["check_plain_file", "given_path", "special_kind"]

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def given_path(path: str | os.PathLike[str]) -> Path:
    """A path as a person wrote it, with `~` for a home folder.

    Python takes an empty one for the current folder; here it is an error, since a variable that was never set gives it.
    """
    if not os.fspath(path):
        raise DataError("A path is empty: name a file or a folder; the current folder is called '.'.")
    try:
        return Path(path).expanduser()
    # Nobody of that name has a home here: then it is a name like any other.
    except RuntimeError:
        return Path(path)


def special_kind(path: str | os.PathLike[str]) -> str:
    """What a path leads to that is neither a file nor a folder, such as `"a pipe"`; else empty.

    Reading one may take for ever.
    """
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


def check_plain_file(path: str | os.PathLike[str]) -> None:
    """Raise an `OSError` in place of waiting for a pipe or the like."""
    if kind := special_kind(path):
        raise OSError(f"it is {kind}, not a file")
