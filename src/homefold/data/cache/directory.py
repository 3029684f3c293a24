"""Where homefold keeps what it can always make again, and how much that may take."""

from __future__ import annotations

import os
import re
from pathlib import Path

from homefold.data.paths import given_path
from homefold.errors import ConfigError
from homefold.store.files import read_json, write_json

__all__ = ["DEFAULT_LIMIT_BYTES", "cache_directory", "cache_limit_bytes", "parse_bytes", "set_cache_limit"]

DEFAULT_LIMIT_BYTES = 50 * 10**9
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4}


def cache_directory() -> Path:
    """`HOMEFOLD_CACHE` if it is set, else `XDG_CACHE_HOME/homefold`, else `~/.cache/homefold`; it need not exist."""
    if own := os.environ.get("HOMEFOLD_CACHE"):
        return given_path(own)
    if shared := os.environ.get("XDG_CACHE_HOME"):
        return given_path(shared) / "homefold"
    return Path.home() / ".cache" / "homefold"


def parse_bytes(text: str) -> int:
    """A number of bytes as people write it.

    >>> parse_bytes("20GB"), parse_bytes("1.5 GiB"), parse_bytes("0")
    (20000000000, 1610612736, 0)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*(?:([KMGT]?)B?|([KMGT])(I)B)\s*", text.upper())
    if found is None:
        raise ConfigError(f"a size limit is a number with a unit such as 20GB or 500MB; got {text!r}.")
    return int(float(found[1]) * (1024 if found[4] else 1000) ** _POWERS[found[2] or found[3] or ""])


def cache_limit_bytes() -> int:
    """`HOMEFOLD_CACHE_LIMIT` if it is set, else what `set_cache_limit` kept, else 50 GB."""
    if text := os.environ.get("HOMEFOLD_CACHE_LIMIT"):
        try:
            return parse_bytes(text)
        except ConfigError as error:
            raise ConfigError(f"the environment variable HOMEFOLD_CACHE_LIMIT cannot be used: {error}") from None
    settings = read_json(_settings()) if _settings().exists() else None
    limit = settings.get("limit_bytes") if isinstance(settings, dict) else None
    return limit if isinstance(limit, int) and limit >= 0 else DEFAULT_LIMIT_BYTES


def set_cache_limit(limit_bytes: int) -> None:
    """Keep a limit for all later runs that use this cache."""
    write_json(_settings(), {"limit_bytes": limit_bytes})


def _settings() -> Path:
    return cache_directory() / "settings.json"
