"""Classifiers that hold up on domains they have never seen.

Features in which classes cluster whatever the domain, a model of the manifold they live on, and at inference a search
that brings each unseen sample home to that manifold before it is classified.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from homefold.version import __version__

if TYPE_CHECKING:
    from homefold.config import (
        HomefoldConfig,
        LookConfig,
        SearchConfig,
        list_presets,
        look_preset,
        preset_config,
        search_preset,
    )
    from homefold.errors import HomefoldError
    from homefold.features.loss import pairwise_metric_loss
    from homefold.model import Homefold
    from homefold.projector import ManifoldProjector
    from homefold.runtime.plugins import load_plugin
    from homefold.stages.predictions import Prediction, Predictions

__all__ = [
    "Homefold",
    "HomefoldConfig",
    "HomefoldError",
    "LookConfig",
    "ManifoldProjector",
    "Prediction",
    "Predictions",
    "SearchConfig",
    "__version__",
    "list_presets",
    "load_plugin",
    "look_preset",
    "pairwise_metric_loss",
    "preset_config",
    "search_preset",
]

# Importing torch takes seconds, which nobody should wait for who only asks the command for help.
_NAMES = {
    "homefold.config": "HomefoldConfig LookConfig SearchConfig list_presets look_preset preset_config search_preset",
    "homefold.errors": "HomefoldError",
    "homefold.features.loss": "pairwise_metric_loss",
    "homefold.model": "Homefold",
    "homefold.projector": "ManifoldProjector",
    "homefold.runtime.plugins": "load_plugin",
    "homefold.stages.predictions": "Prediction Predictions",
}
_HOME = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'homefold' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
