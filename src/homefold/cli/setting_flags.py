"""The settings that flags of `homefold fit` stand for."""

from __future__ import annotations

__all__ = ["setting_of"]

_PARTS = ("preprocessing", "features", "manifold", "classifier", "look", "search", "style")
_SHORT = {
    "epochs": "features.epochs",
    "batch-size": "features.batch_size",
    "learning-rate": "features.learning_rate",
    "image-size": "preprocessing.image_size",
}


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
