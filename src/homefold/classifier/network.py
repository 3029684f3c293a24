"""The classifier: logits of a feature."""

from __future__ import annotations

from typing import Literal

import torch
from torch import nn

from homefold.config import ClassifierConfig

__all__ = ["Classifier", "build_classifier"]


class Classifier(nn.Module):
    """Logits of a feature.

    Args:
        feature_dim: dimensions d of a feature.
        num_classes: number C of classes.
        kind: `"linear"` or `"hidden"`.
        hidden_dim: width of the hidden layer.
    """

    held_out_accuracy: float | None
    """Accuracy on held-out source features, set by `fit_classifier`."""

    def __init__(
        self,
        feature_dim: int,
        num_classes: int,
        kind: Literal["linear", "hidden"] = "linear",
        hidden_dim: int = 256,
    ) -> None:
        super().__init__()
        self.feature_dim, self.num_classes = feature_dim, num_classes
        self.held_out_accuracy = None
        self.best_epoch = 0
        self.layers = (
            nn.Sequential(nn.Linear(feature_dim, num_classes))
            if kind == "linear"
            else nn.Sequential(nn.Linear(feature_dim, hidden_dim), nn.ReLU(), nn.Linear(hidden_dim, num_classes))
        )

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        """z: (n, d) -> logits (n, C)."""
        logits: torch.Tensor = self.layers(z)
        return logits


def build_classifier(config: ClassifierConfig, feature_dim: int, num_classes: int) -> Classifier:
    """An untrained classifier of the configured form, frozen, into which a saved state loads."""
    return Classifier(feature_dim, num_classes, config.kind, config.hidden_dim).requires_grad_(False).eval()
