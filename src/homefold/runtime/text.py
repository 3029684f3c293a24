"""Names of files as text: on some systems they may hold bytes that are none."""

from __future__ import annotations

from pathlib import Path

from homefold.errors import ConfigError

__all__ = ["as_text", "require_text_path"]


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
