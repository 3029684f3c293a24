"""The settings in the description of a saved model, as `read_model_folder` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

from homefold.classifier import ClassifierConfig
from homefold.config import HomefoldConfig, SearchConfig, saved_config
from homefold.config.values import Finite, Seed, dataclass
from homefold.errors import ConfigError, ModelFileError
from homefold.manifold import ManifoldConfig, ManifoldReport

__all__ = ["FeatureSettings", "ProjectorConfig", "images_config", "projector_config"]

C = TypeVar("C")


@dataclass(frozen=True)
class ProjectorConfig:
    """Everything that decides what a `ManifoldProjector` learns and answers, but the features."""

    seed: Seed = 0
    """All randomness of the fit and of the random starts follows from it."""
    normalise_features: bool = True
    """Scale every feature to length √d first."""
    held_out: Finite = 0.1
    """Share of the features set aside for selection and calibration."""
    manifold: ManifoldConfig = field(default_factory=ManifoldConfig)
    """The generative model G of the source features."""
    classifier: ClassifierConfig = field(default_factory=ClassifierConfig)
    """The classifier C."""
    search: SearchConfig = field(default_factory=SearchConfig)
    """The search."""


FeatureSettings = HomefoldConfig | ProjectorConfig
"""What says how features are classified."""


def images_config(description: Mapping[str, Any], path: Path | str) -> HomefoldConfig:
    """The settings of a `Homefold` saved at `path`; a `ModelFileError` where the description says something else."""
    if description["kind"] != "images":
        raise ModelFileError(f"{path} holds a projector of features; load it with ManifoldProjector.load.")
    return _described(HomefoldConfig, description, f"the model in {path}")


def projector_config(description: Mapping[str, Any], path: Path | str) -> ProjectorConfig:
    """The settings of a `ManifoldProjector`, likewise."""
    if description["kind"] != "features":
        raise ModelFileError(f"{path} holds a model of images; load it with Homefold.load.")
    return _described(ProjectorConfig, description, f"the projector in {path}")


def _described(kind: type[C], description: Mapping[str, Any], called: str) -> C:
    try:
        config = saved_config(kind, description["settings"], called)
        if isinstance(config, HomefoldConfig):
            config.require_consistent()
        ManifoldReport.from_dict(description["measured"]["manifold"])
    except (ConfigError, ModelFileError) as error:
        raise ModelFileError(f"{called} has an odd description: {error}") from None
    return config
