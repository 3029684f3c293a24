"""A trained network with a linear layer on its features: how Deep All and the training-time methods answer."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
from torch import nn

from homefold.methods.base import Answers, ClassifierNetwork, TrainedMethod, plain_predictions
from homefold.stages.features import FeatureStage
from homefold.stages.task import ImageSet, TrainingTask
from homefold.store.stage_store import Stage

__all__ = ["TrainedClassifier"]


class TrainedClassifier(TrainedMethod):
    """Answers softmax(layer(z)) for features z that are computed once and kept.

    Args:
        task: what it was trained on.
        features: the trained network.
        layer: from z to logits.
    """

    def __init__(self, task: TrainingTask, features: FeatureStage, layer: nn.Linear) -> None:
        self._features, self._class_names = features, task.source.class_names
        self._seen, self._views = self._look(task, features), task.config.views()
        self.layer = layer.to(task.device).requires_grad_(False)

    def _look(self, task: TrainingTask, features: FeatureStage) -> FeatureStage:
        """How target images pass the network, where that is not as the source images did."""
        return features

    @property
    def net(self) -> nn.Module:
        """From images `(n, 3, h, w)` in [0, 1] to features `(n, d)`, frozen."""
        return self._features.net

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self._seen.stages

    def answer(self, images: ImageSet) -> Answers:
        z, seconds = self._seen.of(images, views=self._views)
        began = time.perf_counter()
        probabilities = torch.softmax(self.layer(z), dim=1).cpu().numpy()
        seconds += time.perf_counter() - began
        return Answers(plain_predictions(self._class_names, probabilities), seconds, z)

    def classifier_network(self) -> ClassifierNetwork:
        return ClassifierNetwork(copy.deepcopy(self._seen.net), copy.deepcopy(self.layer))

    def source_features(self) -> torch.Tensor:
        return self._features.source()

    def facts(self) -> dict[str, Any]:
        report = self._features.report
        return {"features": {name: value for name, value in report.items() if name != "history"}}
