"""Errors that reach a person: each message says what was found, what was expected and what to do."""

from __future__ import annotations

__all__ = [
    "ConfigError",
    "DataError",
    "FeatureCollapseError",
    "HomefoldError",
    "ManifoldCollapsedError",
    "ModelFileError",
    "TrainingDivergedError",
]


class HomefoldError(Exception):
    """Base of every error that homefold raises on purpose; the command prints its message alone."""


class ConfigError(HomefoldError, ValueError):
    """A setting, or a combination of settings, cannot work."""


class DataError(HomefoldError, ValueError):
    """Images, labels or folders are not what they must be."""


class ModelFileError(HomefoldError):
    """A model folder or checkpoint is missing, truncated, tampered with or too new."""


class FeatureCollapseError(HomefoldError, RuntimeError):
    """Stage 1 ended with features that no longer tell images apart."""


class ManifoldCollapsedError(HomefoldError, RuntimeError):
    """The generative model ignores its latent, so nothing can be projected onto it."""


class TrainingDivergedError(HomefoldError, RuntimeError):
    """A loss or a weight became NaN or infinite."""
