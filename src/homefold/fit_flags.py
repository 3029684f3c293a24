"""Flags of `homefold fit` that are settings, as `homefold bench --set` takes them; imports nothing large."""

from __future__ import annotations

import re

__all__ = ["as_settings", "setting_of"]

_PARTS = ("preprocessing", "features", "manifold", "classifier", "look", "search", "style")
_SHORT = {
    "epochs": "features.epochs",
    "batch-size": "features.batch_size",
    "learning-rate": "features.learning_rate",
    "image-size": "preprocessing.image_size",
}
_FLAG = re.compile(
    rf"--(?:((?:{'|'.join(_PARTS)})\.[a-z][a-z-]*)(?: ([\w.]*\w))?|({'|'.join(_SHORT)})(?![\w-]))",
)


def setting_of(word: str) -> str | None:
    """The setting that a flag stands for; None for any other word.

    >>> setting_of("--learning-rate=1"), setting_of("--features.feature-dim"), setting_of("--seeds")
    ('features.learning_rate', 'features.feature_dim', None)
    """
    if not word.startswith("--"):
        return None
    name = word.removeprefix("--").partition("=")[0].replace("_", "-")
    if name in _SHORT:
        return _SHORT[name]
    return name.replace("-", "_") if name.partition(".")[0] in _PARTS else None


def as_settings(text: str) -> str:
    """Advice with every flag of `homefold fit` that is a setting written as `--set` takes it.

    >>> as_settings("lower --learning-rate, or use a head (--features.head linear or mlp).")
    'lower --set features.learning_rate, or use a head (--set features.head=linear or mlp).'
    """
    return _FLAG.sub(_setting, text)


def _setting(found: re.Match[str]) -> str:
    dotted, value, short = found.groups()
    name = _SHORT[short] if short else dotted.replace("-", "_")
    return f"--set {name}={value}" if value else f"--set {name}"
