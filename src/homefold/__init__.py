"""Classifiers that hold up on domains they have never seen.

Features in which classes cluster whatever the domain, a model of the manifold they live on, and at inference a search
that brings each unseen sample home to that manifold before it is classified.
"""

from homefold.config import HomefoldConfig, list_presets, preset_config
from homefold.errors import HomefoldError
from homefold.estimator import ManifoldProjector
from homefold.features.loss import pairwise_metric_loss
from homefold.pipeline import Homefold
from homefold.predictions import Prediction, Predictions
from homefold.projection import ProjectionConfig, projection_preset
from homefold.version import __version__

__all__ = [
    "Homefold",
    "HomefoldConfig",
    "HomefoldError",
    "ManifoldProjector",
    "Prediction",
    "Predictions",
    "ProjectionConfig",
    "__version__",
    "list_presets",
    "pairwise_metric_loss",
    "preset_config",
    "projection_preset",
]
