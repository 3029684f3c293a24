"""The settings in the description of a saved model, as `read_model_folder` gives it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from homefold.classifier import ClassifierConfig
from homefold.config import HomefoldConfig, SearchConfig, saved_config
from homefold.config.values import Finite, Seed, dataclass
from homefold.errors import ConfigError, ModelFileError
from homefold.manifold import ManifoldConfig, ManifoldReport

__all__ = ["ProjectorConfig", "images_config", "projector_config"]


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


def images_config(description: Mapping[str, Any], path: Path | str) -> HomefoldConfig:
    """The settings of a saved `Homefold`; a `ModelFileError` where they say something else.

    Args:
        description: from `read_model_folder`.
        path: of the folder, for the sentence that refuses it.
    """
    if description["kind"] != "images":
        raise ModelFileError(f"{path} holds a projector of features; load it with ManifoldProjector.load.")
    try:
        config = saved_config(HomefoldConfig, description["settings"], f"the model in {path}")
        config.require_consistent()
        ManifoldReport.from_dict(description["measured"]["manifold"])
    except (ConfigError, ModelFileError) as error:
        raise ModelFileError(f"the model in {path} has an odd description: {error}") from None
    return config


def projector_config(description: Mapping[str, Any], path: Path | str) -> ProjectorConfig:
    """The settings of a saved `ManifoldProjector`; a `ModelFileError` where they say something else.

    Args:
        description: from `read_model_folder`.
        path: of the folder, for the sentence that refuses it.
    """
    if description["kind"] != "features":
        raise ModelFileError(f"{path} holds a model of images; load it with Homefold.load.")
    try:
        config = saved_config(ProjectorConfig, description["settings"], f"the projector in {path}")
        ManifoldReport.from_dict(description["measured"]["manifold"])
    except (ConfigError, ModelFileError) as error:
        raise ModelFileError(f"the projector in {path} has an odd description: {error}") from None
    return config
