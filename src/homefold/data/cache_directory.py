"""Where homefold keeps what it can always make again."""

from __future__ import annotations

import os
from pathlib import Path

from homefold.data.paths import given_path

__all__ = ["cache_directory"]


def cache_directory() -> Path:
    """The user's cache directory for homefold; it need not exist yet.

    `HOMEFOLD_CACHE` if it is set, else `XDG_CACHE_HOME/homefold`, else `~/.cache/homefold`.
    """
    if own := os.environ.get("HOMEFOLD_CACHE"):
        return given_path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return given_path(shared) / "homefold"
    return Path.home() / ".cache" / "homefold"
