"""Logistic regression on what is there before any training: the yardstick of every fit."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from homefold.runtime.device import one_thread
from homefold.stages.encoder import Encoder, build_net, frozen
from homefold.stages.features import weights_identity
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["probe_encoder", "probe_id", "probe_stage"]

_STRENGTHS = (1e-4, 1e-3, 1e-2, 1e-1, 1.0)
"""Inverse strengths of the L2 penalty; the strongest penalty that does best on held-out source images is taken."""
_CELLS = 8


def probe_id(key: TaskKey) -> StageId:
    """The probe of these images with this start of the backbone."""
    features = key.config.features
    return stage_id(
        "probe",
        source=key.source,
        preprocessing=asdict(key.config.preprocessing),
        features=[features.backbone, weights_identity(features), features.held_out],
        seed=key.config.seed,
    )


def probe_encoder(task: TrainingTask) -> Encoder:
    """The backbone as it starts, without a head."""
    config = replace(task.config, features=replace(task.config.features, head="none", feature_dim=0))
    net = build_net(config, task.source.image_size, pretrained=True, backbone=task.network)
    return Encoder(task.device, frozen(net, task.device))


def probe_stage(task: TrainingTask) -> Stage:
    """Weight, bias and held-out accuracy; of a start that knows nothing, on small copies of the images."""
    return task.stages.get(probe_id(task.key), lambda _: _fit(task))


def _fit(task: TrainingTask) -> dict[str, Any]:
    if weights_identity(task.config.features) == "none":
        z = _pixels(task.source.images)
    else:
        z = probe_encoder(task).extract(task.source.images)[0].double().cpu().numpy()
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


def _pixels(images: np.ndarray) -> np.ndarray:
    """`(n, 192)`: the mean colour of each of 8 × 8 cells."""
    rows, columns = (
        [part for part in np.array_split(np.arange(side), _CELLS) if len(part)] for side in images.shape[1:3]
    )
    cells = [images[:, r[0] : r[-1] + 1, c[0] : c[-1] + 1].mean(axis=(1, 2)) for r in rows for c in columns]
    return np.concatenate(cells, axis=1)


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
