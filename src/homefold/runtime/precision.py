"""Names of the precisions that a training can compute in."""

from __future__ import annotations

from typing import Literal

__all__ = ["Precision"]

Precision = Literal["auto", "float32", "bfloat16", "float16"]
