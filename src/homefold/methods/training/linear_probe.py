"""Linear probe: logistic regression on what a pretrained backbone gives, the yardstick of every fit."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import torch

from homefold.config import HomefoldConfig
from homefold.errors import ConfigError
from homefold.methods.base import Answers, Method, TrainedMethod, plain_predictions
from homefold.methods.registry import method_named
from homefold.stages.features import weights_identity
from homefold.stages.linear_probe import probe_encoder, probe_id, probe_stage
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId

__all__ = ["LinearProbeMethod"]


@method_named(
    "linear-probe",
    "Linear probe",
    2019,
    "Kornblith et al., CVPR 2019",
    "Logistic regression on the features of the backbone as it starts.",
)
@dataclass(frozen=True)
class LinearProbeMethod(Method):
    """argmin over W of cross entropy(W z) + ‖W‖² / 2C, where z are standardised features of the untouched backbone."""

    tunables = ()

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        return replace(super().starting(config), look=config.look.plain)

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        if weights_identity(config.features) == "none":
            raise ConfigError("linear-probe needs a pretrained backbone, and features.weights is none.")
        return config

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return (probe_id(key),)

    def train(self, task: TrainingTask) -> TrainedMethod:
        return TrainedProbe(task, probe_stage(task))


class TrainedProbe(TrainedMethod):
    """Answers softmax(W z + b) for features z of the untouched backbone; the stage holds W and b."""

    def __init__(self, task: TrainingTask, stage: Stage) -> None:
        self._task, self._stage, self._class_names = task, stage, task.source.class_names

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self._stage,)

    def answer(self, images: ImageSet) -> Answers:
        z, seconds = probe_encoder(self._task).of(images)
        began = time.perf_counter()
        logits = z.float().cpu() @ self._stage.part("weight").T + self._stage.part("bias")
        probabilities = torch.softmax(logits, dim=1).numpy()
        seconds += time.perf_counter() - began
        return Answers(plain_predictions(self._class_names, probabilities), seconds, z)

    def facts(self) -> dict[str, Any]:
        return {"classifier": {"held_out_accuracy": self._stage.part("held_out_accuracy")}}
