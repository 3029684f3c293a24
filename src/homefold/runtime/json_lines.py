"""Values as lines of JSON, the same through every door: the command, the server and what they write to files."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

__all__ = ["json_line"]

_ENCODER = json.JSONEncoder(allow_nan=False)
_PLAIN = frozenset({str, int, bool})


def json_line(value: Any) -> str:
    """`value` as one line of JSON; NaN and infinity, which JSON does not have, become null.

    >>> json_line({"score": float("nan"), "path": Path("a.png")})
    '{"score": null, "path": "a.png"}'
    """
    return _ENCODER.encode(_plain(value))


def _plain(value: Any) -> Any:
    # Most values are these: a folder of images has a million of them.
    if type(value) in _PLAIN:
        return value
    if type(value) is float:
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return str(value) if isinstance(value, Path) else value
