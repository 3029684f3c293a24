"""Deep All: a plain classifier on the pooled source domains, the control that every method must beat."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from homefold.config import HomefoldConfig
from homefold.methods.base import Method, TrainedMethod
from homefold.methods.registry import method_named
from homefold.methods.trained_classifier import TrainedClassifier
from homefold.stages.features import FeatureStage, features_ids, require_stage_1, train_feature_stage
from homefold.stages.style import style_ids, styled_stage, with_style_blocks
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import StageId

__all__ = ["DeepAllMethod", "deep_all_config"]


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
        return TrainedDeepAll(task, train_feature_stage(task))


class TrainedDeepAll(TrainedClassifier):
    """Answers by the linear layer that was trained with the features.

    Args:
        task: what it was trained on.
        features: stage 1 under cross entropy.
    """

    def __init__(self, task: TrainingTask, features: FeatureStage) -> None:
        state = features.stage.part("objective")
        weight = state["classifier.weight"]
        layer = torch.nn.Linear(weight.shape[1], weight.shape[0])
        layer.load_state_dict({"weight": weight, "bias": state["classifier.bias"]})
        super().__init__(task, features, layer)

    def _look(self, task: TrainingTask, features: FeatureStage) -> FeatureStage:
        return styled_stage(task, features)
