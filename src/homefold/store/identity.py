"""What identifies settings and plain values, so that a stage is found again only if nothing about it changed."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from homefold.store.files import plain_json

__all__ = ["digest"]


def digest(value: Any) -> str:
    """24 hex digits that stand for plain values: dicts, lists, text and numbers.

    >>> digest({"a": 1, "b": (2, 3)}) == digest({"b": [2, 3], "a": 1})
    True
    """
    text = json.dumps(plain_json(value), sort_keys=True, ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:24]
