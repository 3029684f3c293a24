"""Every setting of stage 3."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from homefold.config.choices import require_types
from homefold.errors import ConfigError, shown

__all__ = ["ClassifierConfig"]


@dataclass(frozen=True)
class ClassifierConfig:
    """Form and training of the classifier."""

    kind: Literal["linear", "hidden"] = "linear"
    """A single fully connected layer, or one with a hidden layer before it."""
    hidden_dim: int = 256
    """Width of the hidden layer."""
    learning_rate: float = 0.003
    """Learning rate of Adam."""
    epochs: int = 20
    """Passes over the source features."""
    batch_size: int = 64
    """Features per step."""
    weight_decay: float = 0.0
    """Weight decay."""
    label_smoothing: float = 0.0
    """Probability spread evenly over all classes in the target of the cross entropy."""

    def __post_init__(self) -> None:
        if self.kind not in ("linear", "hidden"):
            raise ConfigError(f"the classifier must be linear or hidden; got {shown(self.kind)}.")
        require_types(self)
        for name in ("hidden_dim", "epochs", "batch_size"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} must be at least 1; got {getattr(self, name)}.")
        if not self.learning_rate > 0:
            raise ConfigError(f"learning_rate must be a positive number; got {self.learning_rate}.")
        if not self.weight_decay >= 0:
            raise ConfigError(f"weight_decay must be zero or a positive number; got {self.weight_decay}.")
        if not 0 <= self.label_smoothing < 1:
            raise ConfigError(f"label_smoothing must be at least 0 and below 1; got {self.label_smoothing}.")
