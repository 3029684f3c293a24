"""Names and numbers in sentences; the name of a file may hold bytes that are no text."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from homefold.errors import ConfigError

__all__ = ["as_text", "counted", "require_text_path", "some"]


def as_text(name: str) -> str:
    r"""`name` as it can be written to any file, bytes that are no text escaped.

    >>> as_text("caf\udce9")
    'caf\\udce9'
    """
    return name.encode("utf-8", "backslashreplace").decode()


def require_text_path(path: Path) -> None:
    """Refuse a folder where tensors could be written and never be read: safetensors opens names that are text alone."""
    if as_text(str(path)) != str(path):
        raise ConfigError(
            f"{as_text(str(path))} has a name that is not valid UTF-8 text, and files of tensors cannot be read there; "
            "choose another folder."
        )


def some(texts: Iterable[str], most: int = 5, separator: str = ", ") -> str:
    """The first `most` of the texts, and how many more there are.

    >>> some("abcd", most=3)
    'a, b, c and 1 more'
    """
    listed = list(texts)
    joint = " " if separator == ", " else separator
    rest = f"{joint}and {len(listed) - most} more" if len(listed) > most else ""
    return separator.join(listed[:most]) + rest


def counted(n: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "image"), counted(2, "image")
    ('1 image', '2 images')
    """
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
