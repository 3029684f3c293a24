"""Paths and names that people give: an empty path is no folder, a pipe is never waited for, a name must be text."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from homefold.errors import DataError
from homefold.runtime.text import as_text

__all__ = ["check_names", "given_path", "reading", "special_kind", "walking"]

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket"}


def given_path(path: str | os.PathLike[str]) -> Path:
    """A path as a person wrote it, with `~` for a home folder; an empty one (a variable never set) is an error."""
    if not os.fspath(path):
        raise DataError("A path is empty: name a file or a folder; the current folder is called '.'.")
    try:
        return Path(path).expanduser()
    # Nobody of that name has a home here: then it is a name like any other.
    except RuntimeError:
        return Path(path)


def special_kind(path: str | os.PathLike[str]) -> str:
    """What a path leads to that is neither a file nor a folder and may be read for ever, such as `"a pipe"`; or ""."""
    try:
        mode = os.stat(path).st_mode
    except (OSError, ValueError):
        return ""
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return ""
    return _KINDS.get(stat.S_IFMT(mode), "a device")


@contextmanager
def reading(path: Path, kind: str, advice: str = "fetch it anew") -> Iterator[None]:
    """Inside, whatever a parser stumbles over in a damaged file becomes a sentence; a pipe is not waited for.

    `kind` is what the file should be, such as `"a zip"`; `advice`, what to do about a damaged one.
    """
    if special := special_kind(path):
        raise DataError(f"{path} is {special}, not a file; save what comes from it as {kind} and give that.")
    try:
        yield
    except DataError:
        raise
    except Exception as error:
        # The other system error, EINVAL, comes of a table that leads to a place before the file.
        if isinstance(error, OSError) and error.errno not in (None, errno.EINVAL):
            reason = error.strerror or error
            raise DataError(f"{path} cannot be read ({reason}); check that it is there and readable.") from None
        reason = str(error) or type(error).__name__
        raise DataError(f"{path} cannot be read as {kind} ({reason}); {advice}.") from None


@contextmanager
def walking(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Inside, a folder that cannot be listed becomes a sentence: passed over unread, its images would be missing."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise DataError(
            f"The folder {folder!s} may not be read ({reason}); make it readable (chmod u+rx) or move it away."
        ) from None


def check_names(what: str, names: Sequence[str], where: object) -> None:
    """Stop at a name of a class or domain (`what`) that cannot be saved with a model."""
    for name in map(str, names):
        if as_text(name) != name:
            raise DataError(
                f"The {what} {as_text(name)} in {as_text(str(where))} has a name that is not valid UTF-8, so that no "
                f"model could be saved with it; rename it."
            )
