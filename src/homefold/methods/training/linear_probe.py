"""Linear probe: logistic regression on what a pretrained backbone gives, the yardstick of every fit."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from homefold.config import HomefoldConfig
from homefold.errors import ConfigError
from homefold.methods.base import Answers, Method, TrainedMethod, plain_predictions
from homefold.methods.registry import method_named
from homefold.runtime.device import one_thread
from homefold.stages.encoder import Encoder, build_net, frozen
from homefold.stages.features import weights_identity
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["LinearProbeMethod"]

_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Inverse strengths of the L2 penalty; the strongest penalty that does best on held-out source images is taken."""


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

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        return replace(super().starting(config), look=config.look.plain)

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        if weights_identity(config.features) == "none":
            raise ConfigError("linear-probe needs a pretrained backbone, and features.weights is none.")
        return config

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return (_probe_id(key),)

    def train(self, task: TrainingTask) -> TrainedMethod:
        def encoder() -> Encoder:
            features = replace(task.config.features, head="none", feature_dim=0)
            config = replace(task.config, features=features)
            net = build_net(config, task.source.image_size, pretrained=True, backbone=task.network)
            return Encoder(task.device, frozen(net, task.device))

        stage = task.stages.get(_probe_id(task.key), lambda _: _fit(task, encoder()))
        return TrainedProbe(task, stage, encoder)


def _probe_id(key: TaskKey) -> StageId:
    features = key.config.features
    return stage_id(
        "linear-probe",
        source=key.source,
        preprocessing=asdict(key.config.preprocessing),
        features=[features.backbone, weights_identity(features), features.held_out],
        seed=key.config.seed,
    )


def _fit(task: TrainingTask, encoder: Encoder) -> dict[str, Any]:
    z = encoder.extract(task.source.images)[0].double().cpu().numpy()
    labels, (train, held_out) = task.source.labels, task.split
    best: tuple[float, Any] | None = None
    with one_thread(task.device):
        for strength in _STRENGTHS:
            probe = make_pipeline(StandardScaler(), LogisticRegression(C=strength, max_iter=1000))
            accuracy = probe.fit(z[train], labels[train]).score(z[held_out], labels[held_out])
            if best is None or accuracy > best[0]:
                best = accuracy, probe
    assert best is not None
    return {"held_out_accuracy": best[0], **_as_layer(best[1], len(task.source.class_names))}


def _as_layer(probe: Any, classes: int) -> dict[str, torch.Tensor]:
    """The scaler and the regression as one linear layer; a class without images is never answered."""
    scaler, regression = probe[0], probe[1]
    present = regression.classes_
    rows, bias = regression.coef_, regression.intercept_
    if len(present) == 2:  # one row stands for both classes
        rows, bias = np.concatenate([-rows, rows]) / 2, np.concatenate([-bias, bias]) / 2
    weight, offset = np.zeros((classes, rows.shape[1])), np.full(classes, -1e4)
    weight[present] = rows / scaler.scale_
    offset[present] = bias - weight[present] @ scaler.mean_
    return {"weight": torch.from_numpy(weight).float(), "bias": torch.from_numpy(offset).float()}


class TrainedProbe(TrainedMethod):
    """Answers softmax(W z + b) for features z of the untouched backbone; the stage holds W and b."""

    def __init__(self, task: TrainingTask, stage: Stage, encoder: Callable[[], Encoder]) -> None:
        self._stage, self._encoder, self._class_names = stage, encoder, task.source.class_names

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (self._stage,)

    def answer(self, images: ImageSet) -> Answers:
        z, seconds = self._encoder().of(images)
        began = time.perf_counter()
        logits = z.float().cpu() @ self._stage.part("weight").T + self._stage.part("bias")
        probabilities = torch.softmax(logits, dim=1).numpy()
        seconds += time.perf_counter() - began
        return Answers(plain_predictions(self._class_names, probabilities), seconds, z)

    def facts(self) -> dict[str, Any]:
        return {"classifier": {"held_out_accuracy": self._stage.part("held_out_accuracy")}}
