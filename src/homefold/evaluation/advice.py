"""Advice that names flags of `homefold fit`, in the words of `homefold bench`."""

from __future__ import annotations

import re

__all__ = ["as_settings"]

_SHORT = {
    "epochs": "features.epochs",
    "batch-size": "features.batch_size",
    "learning-rate": "features.learning_rate",
    "image-size": "preprocessing.image_size",
}
_PARTS = "preprocessing|features|manifold|classifier|projection|style"
_FLAG = re.compile(rf"--(?:((?:{_PARTS})\.[a-z][a-z-]*)(?: ([\w.]*\w))?|({'|'.join(_SHORT)})(?![\w-]))")


def as_settings(text: str) -> str:
    """`text` with every flag of `homefold fit` that is a setting written as `--set` takes it.

    >>> as_settings("lower --learning-rate, or use a head (--features.head linear or mlp).")
    'lower --set features.learning_rate, or use a head (--set features.head=linear or mlp).'
    """
    return _FLAG.sub(_setting, text)


def _setting(found: re.Match[str]) -> str:
    dotted, value, short = found.groups()
    name = _SHORT[short] if short else dotted.replace("-", "_")
    return f"--set {name}={value}" if value else f"--set {name}"
