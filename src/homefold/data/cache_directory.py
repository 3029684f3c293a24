"""Where homefold keeps what it can always make again."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["cache_directory"]


def cache_directory() -> Path:
    """The user's cache directory for homefold; it need not exist yet.

    `HOMEFOLD_CACHE` if it is set, else `XDG_CACHE_HOME/homefold`, else `~/.cache/homefold`.
    """
    if own := os.environ.get("HOMEFOLD_CACHE"):
        return Path(own).expanduser()
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return Path(shared).expanduser() / "homefold"
    return Path.home() / ".cache" / "homefold"
