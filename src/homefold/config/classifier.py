"""Every setting of stage 3."""

from __future__ import annotations

from typing import Literal

from homefold.config.values import Count, FromZero, FromZeroBelowOne, Positive, dataclass

__all__ = ["ClassifierConfig"]


@dataclass(frozen=True)
class ClassifierConfig:
    """Form and training of the classifier."""

    kind: Literal["linear", "hidden"] = "linear"
    """A single fully connected layer, or one with a hidden layer before it."""
    hidden_dim: Count = 256
    """Width of the hidden layer."""
    learning_rate: Positive = 0.003
    """Learning rate of Adam."""
    epochs: Count = 20
    """Passes over the source features."""
    batch_size: Count = 64
    """Features per step."""
    weight_decay: FromZero = 0.0
    """Weight decay."""
    label_smoothing: FromZeroBelowOne = 0.0
    """Probability spread evenly over all classes in the target of the cross entropy."""
