"""Deep All: a plain classifier on the pooled source domains, the control that every method must beat."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.methods.base import Answers, ClassifierNetwork, Method, TrainedMethod, plain_predictions
from homefold.methods.registry import method_named
from homefold.stages.features import FeatureStage, features_ids, require_stage_1, train_feature_stage
from homefold.stages.style import style_ids, styled_stage, with_style_blocks
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId

__all__ = ["DeepAllMethod", "TrainedClassifier", "deep_all_config", "without_history"]


def deep_all_config(config: HomefoldConfig) -> HomefoldConfig:
    """`config` with cross entropy in the place of L_A, and everything else as it is."""
    return replace(config, features=replace(config.features, metric_weight=0.0, cross_entropy_weight=1.0))


@method_named("deep-all", "Deep All", 2017, "Li et al., ICCV 2017", "A plain classifier on the pooled source domains.")
@dataclass(frozen=True)
class DeepAllMethod(Method):
    """Deep All as the benchmark drives it: its features serve the ablation without f."""

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        config = deep_all_config(config)
        require_stage_1(config)
        config.views()  # complains of too many before any work
        return with_style_blocks(config)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return (*features_ids(key), *style_ids(key))

    def train(self, task: TrainingTask) -> TrainedMethod:
        features = train_feature_stage(task)
        state = features.stage.part("objective")
        weight, bias = state["classifier.weight"], state["classifier.bias"]
        layer = nn.Linear(weight.shape[1], weight.shape[0])
        layer.load_state_dict({"weight": weight, "bias": bias})
        return TrainedClassifier(task, features, layer, seen=styled_stage(task, features))


class TrainedClassifier(TrainedMethod):
    """A trained network with a linear layer on its features: how Deep All and the training-time methods answer.

    The answer is softmax(layer(z)) for features z that are computed once and kept.

    Args:
        task: what it was trained on.
        features: the trained network.
        layer: from z to logits.
        seen: how target images pass the network, where that is not as the source images did.
    """

    def __init__(
        self, task: TrainingTask, features: FeatureStage, layer: nn.Linear, seen: FeatureStage | None = None
    ) -> None:
        self._features, self._seen = features, seen or features
        self._class_names, self._views = task.source.class_names, task.config.views()
        self.layer = layer.to(task.device).requires_grad_(False)

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
        return {"features": without_history(self._features.report)}

    def networks(self) -> tuple[nn.Module, ...]:
        return self._features.net, self.layer


def without_history(report: dict[str, Any]) -> dict[str, Any]:
    """The report of stage 1 without its epoch-by-epoch history, which would make every record long."""
    return {name: value for name, value in report.items() if name != "history"}
