"""Errors that reach a person: each message says what was found, what was expected and what to do."""

from __future__ import annotations

from typing import Any

__all__ = [
    "ConfigError",
    "DataError",
    "FeatureCollapseError",
    "HomefoldError",
    "ManifoldCollapsedError",
    "ModelFileError",
    "NotFiniteError",
    "TrainingDivergedError",
    "cut",
    "shown",
]

_LONGEST_SHOWN = 60


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


class NotFiniteError(HomefoldError, ArithmeticError):
    """The answer to a sample, or its off-manifold score, came out as NaN or infinite.

    Args:
        row: which of the samples that were given, from 0.
        name: what it is called, such as the file it came from.
    """

    def __init__(self, row: int, name: str = "") -> None:
        super().__init__(
            f"the model gives no finite answer for {name or f'sample {row} of those given'}: numbers in it are too "
            f"large to compute with. Look at its input and at the settings of the projection, or fit the model again."
        )
        self.row = row


class TrainingDivergedError(HomefoldError, RuntimeError):
    """A loss or a weight became NaN or infinite."""


def cut(text: str, longest: int = _LONGEST_SHOWN) -> str:
    """`text` as one line for a sentence, cut where it is long.

    >>> cut("x" * 1000)
    'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx… (1,000 characters)'
    """
    line = text.replace("\n", " ").encode(errors="backslashreplace").decode()
    return line if len(line) <= longest else f"{line[:longest]}… ({len(line):,} characters)"


def shown(value: Any) -> str:
    """The `repr` of `value` for a sentence."""
    try:
        return cut(repr(value))
    except (ValueError, RecursionError):  # integers of thousands of digits, lists thousands of lists deep
        return f"a value of type {type(value).__name__} too large to show"
