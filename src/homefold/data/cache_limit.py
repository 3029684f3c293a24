"""How much disk the cache may take: the user's to set, in the environment or for good."""

from __future__ import annotations

import os
import re
from pathlib import Path

from homefold.data.cache_directory import cache_directory
from homefold.errors import ConfigError
from homefold.store.files import read_json, write_json

__all__ = ["DEFAULT_LIMIT_BYTES", "cache_limit_bytes", "parse_bytes", "set_cache_limit"]

DEFAULT_LIMIT_BYTES = 50 * 10**9
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12}
_UNITS |= {"KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_VARIABLE = "HOMEFOLD_CACHE_LIMIT"


def parse_bytes(text: str) -> int:
    """A number of bytes as people write it.

    >>> parse_bytes("20GB"), parse_bytes("1.5 GiB"), parse_bytes("0")
    (20000000000, 1610612736, 0)
    """
    found = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*", text)
    if found is None or found[2].upper() not in _UNITS:
        raise ConfigError(f"a size limit is a number with a unit such as 20GB or 500MB; got {text!r}.")
    return int(float(found[1]) * _UNITS[found[2].upper()])


def cache_limit_bytes(directory: Path | None = None) -> int:
    """`HOMEFOLD_CACHE_LIMIT` if it is set, else what `set_cache_limit` kept, else 50 GB.

    Args:
        directory: the cache; `cache_directory()` by default.
    """
    if text := os.environ.get(_VARIABLE):
        try:
            return parse_bytes(text)
        except ConfigError as error:
            raise ConfigError(f"the environment variable {_VARIABLE} cannot be used: {error}") from None
    kept = _settings(directory)
    if not kept.exists():
        return DEFAULT_LIMIT_BYTES
    settings = read_json(kept)
    limit = settings.get("limit_bytes") if isinstance(settings, dict) else None
    return limit if isinstance(limit, int) and limit >= 0 else DEFAULT_LIMIT_BYTES


def set_cache_limit(limit_bytes: int, directory: Path | None = None) -> None:
    """Keep a limit for all later runs that use this cache."""
    write_json(_settings(directory), {"limit_bytes": limit_bytes})


def _settings(directory: Path | None) -> Path:
    return (directory or cache_directory()) / "settings.json"
