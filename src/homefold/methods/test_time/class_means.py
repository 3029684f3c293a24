"""Class means: the class whose mean source feature is nearest by cosine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped
from homefold.methods.training.learner_method import tunable
from homefold.runtime.tiles import apply_in_tiles, steady_tile
from homefold.stages.task import TrainingTask

__all__ = ["ClassMeans", "unit_class_means"]

_TILE = 64


@method_named(
    "class-means",
    "Class means",
    1971,
    "Rocchio, The SMART Retrieval System 1971",
    "Answers with the class whose mean source feature is nearest by cosine.",
    wraps="deep-all",
)
@dataclass(frozen=True)
class ClassMeans(TestTimeMethod):
    """p(k | x) = s · softmax_k(cos(z(x), m_k) / τ) + (1 − s) · p_C(k | x), m_k = Σ z_i / ‖z_i‖ over class k.

    The sum runs over the source's training images of class k, all domains pooled: a control for every projection, since
    it brings a feature to the nearest of so many points as there are classes. A class without training images is never
    answered.

    Null setting: share 0.
    """

    looks_as_asked = True

    share: float = tunable(1.0, choices=(0.25, 0.5, 1.0), most=1)
    """s: weight of the class means; the rest is the wrapped classifier's."""
    temperature: float = tunable(0.1, choices=(0.05, 0.1, 0.2))
    """τ: how sharply the nearest mean is preferred; it decides no label."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.temperature > 0:
            raise ConfigError(f"temperature of class-means must be a positive number; got {self.temperature}.")

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Means(self, trained, task)


def unit_class_means(z: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Directions `(classes, d)` of the sums of z_i / ‖z_i‖ by class; zero for a class without any."""
    members = F.one_hot(labels, classes).to(z.dtype)
    return F.normalize(members.T @ F.normalize(z, dim=1), dim=1)


class _Means(Wrapped[ClassMeans]):
    def __init__(self, method: ClassMeans, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        z, labels = self.training_features()
        classes = len(task.source.class_names)
        self._means = unit_class_means(z, labels, classes)
        self._empty = torch.bincount(labels, minlength=classes) == 0

    def _probabilities(self, z: torch.Tensor) -> torch.Tensor:
        share, cosine = self.method.share, F.normalize(z, dim=1) @ self._means.T
        near = torch.softmax((cosine / self.method.temperature).masked_fill(self._empty, -torch.inf), dim=1)
        own = torch.softmax(self.network.layer(z), dim=1)
        return share * near + (1 - share) * own

    @torch.no_grad()
    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.target_features(pixels)
        size = steady_tile(self.network, "class means", self._probabilities, z.shape[1:], _TILE, z.device)
        return z, apply_in_tiles(self._probabilities, z, size)
