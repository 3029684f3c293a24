"""What stands behind a method's name: `vae:search.steps=100,weight=0.3`."""

from __future__ import annotations

import re

__all__ = ["split_settings"]

_COMMA = re.compile(r",(?![^\[]*\])")  # a comma, but not one inside a list in brackets


def split_settings(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What follows a method's name as changes of the common settings and settings of its own.

    >>> split_settings("search.steps=100,manifold.hidden=[64,64],weight=0.3")
    (('search.steps=100', 'manifold.hidden=[64,64]'), ('weight=0.3',))
    """
    parts = _COMMA.split(text)
    common = tuple(part for part in parts if _is_common(part))
    return common, tuple(part for part in parts if part not in common)


def _is_common(part: str) -> bool:
    name = part.partition("=")[0]
    return "." in name or name in ("seed", "normalise_features")
