"""Stage 1 as the methods share it: trained once for a source, a configuration and a seed, its features kept."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from functools import cache, cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.config.backbones import BACKBONES
from homefold.config.views import WHOLE, View
from homefold.features import FeatureConfig, FeatureNet, TrainedFeatures, train_features
from homefold.features.averaging import interpolate_back
from homefold.features.backbones import build_backbone, find_weights
from homefold.features.blocks import last_modules
from homefold.features.frozen import backbone_features, head_features
from homefold.stages.encoder import Encoder, build_net, frozen
from homefold.stages.own_code import backbone_code
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.files import file_digest
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = [
    "FeatureStage",
    "build_task_net",
    "decisive_settings",
    "features_id",
    "features_ids",
    "fine_tuning_config",
    "require_stage_1",
    "train_feature_stage",
    "weights_identity",
]

_FINE_TUNING_PART = 3
_NOT_DECISIVE = ("checkpoint_seconds", "compile", "cuda_graph")
_AFTER_TRAINING = ("keep_pretrained",)


@cache
def _file_digest(path: Path, size: int, modified_ns: int) -> str:
    return file_digest(path)[:24]


def weights_identity(config: FeatureConfig) -> str:
    """What the network starts from: the content of a file rather than its name."""
    known = config.backbone in BACKBONES
    own = known and not BACKBONES[config.backbone].pretrained and config.weights == "auto"
    if own or config.weights == "none" or not (known or config.backbone.startswith("timm:")):
        return "none" if own else config.weights
    path = find_weights(config.backbone, config.weights)
    return config.weights if path is None else _file_digest(path, path.stat().st_size, path.stat().st_mtime_ns)


def require_stage_1(config: HomefoldConfig) -> None:
    """Refuse, before anything is trained, what stage 1 would refuse when it begins."""
    features = config.features
    features.require_consistent()
    if features.mix_style_layers:
        side = config.preprocessing.image_size
        last_modules(_untrained(features.backbone, side), features.mix_style_layers, "mix_style_layers")


@lru_cache(maxsize=1)
def _untrained(backbone: str, side: int) -> nn.Module:
    return build_backbone(backbone, "none", (side, side))


def decisive_settings(config: FeatureConfig) -> dict[str, Any]:
    """The settings that decide how f is trained: how fast that is, and what is done with it after, do not."""
    plain = FeatureConfig()
    if not config.mix_style_probability:
        config = replace(config, mix_style_alpha=plain.mix_style_alpha, mix_style_layers=plain.mix_style_layers)
    values = asdict(replace(config, weights=weights_identity(config)))
    left_out = (*_NOT_DECISIVE, *_AFTER_TRAINING, *(() if config.adapter_rank else ("adapter_rank",)))
    return {name: value for name, value in values.items() if name not in left_out}


def features_ids(key: TaskKey) -> tuple[StageId, ...]:
    """The stages of f for this source and these settings, in their order; the last one answers.

    As it was trained, then interpolated back to its start, then fine-tuned on the images to adapt to: each where the
    settings and the task ask for it.
    """
    config = key.config
    code = "" if key.network else backbone_code(config.features.backbone)
    ids = [
        stage_id(
            "features",
            source=key.source,
            preprocessing=asdict(config.preprocessing),
            features=decisive_settings(config.features),
            seed=config.seed,
            **({"network": key.network} if key.network else {}),
            **({"code": code} if code else {}),
            **({"deterministic": True} if key.deterministic else {}),
        )
    ]
    if config.features.keep_pretrained:
        ids.append(stage_id("features", base=ids[-1].digest, keep_pretrained=config.features.keep_pretrained))
    if key.adapt:
        tuned = decisive_settings(fine_tuning_config(config.features))
        ids.append(stage_id("features", base=ids[-1].digest, adapt=key.adapt, features=tuned, seed=config.seed))
    return tuple(ids)


def features_id(key: TaskKey) -> StageId:
    """The stage of f that answers; see `features_ids`."""
    return features_ids(key)[-1]


def fine_tuning_config(config: FeatureConfig) -> FeatureConfig:
    """Stage 1 continued on the source and a few labelled target images, for a third of the epochs.

    A batch has as many of these as of each source domain. The last epoch is kept: a handful leaves none to select on.
    """
    epochs = max(1, config.epochs // _FINE_TUNING_PART)
    return replace(config, epochs=epochs, sampling="domains", select="last", average_from=1.0, average_every=0, runs=1)


class FeatureStage(Encoder):
    """A trained f and the features it gives, each computed once and kept.

    The last of `stages` answers; those before it are what it was made from.
    """

    def __init__(self, task: TrainingTask, stages: tuple[Stage, ...]) -> None:
        super().__init__(task.device)
        self._task, self.stages, self.stage = task, stages, stages[-1]

    @cached_property
    def net(self) -> nn.Module:
        """f, frozen, on the task's device."""
        net = build_task_net(self._task, pretrained=False)
        self.stage.load_into(net, "net")
        return frozen(net, self.device)

    @property
    def report(self) -> dict[str, Any]:
        """What stage 1 measured on held-out source images."""
        report: dict[str, Any] = self.stage.part("report")
        return report

    def source(self) -> torch.Tensor:
        """Raw features `(n, d)` of all source images."""
        return self._features("source", self._task.source.images, learned_from=True)[0]

    def adapt(self) -> torch.Tensor:
        """Raw features `(k, d)` of the labelled target images of few-shot adaptation."""
        assert self._task.adapt is not None
        return self._features("adapt", self._task.adapt.images, learned_from=True)[0]

    def of(self, images: ImageSet, views: tuple[View, ...] = WHOLE) -> tuple[torch.Tensor, float]:
        if not images.key:
            return super().of(images, views)
        return self._features(f"images-{images.key}", images.pixels, views)

    def _features(
        self, name: str, pixels: np.ndarray, views: tuple[View, ...] = WHOLE, *, learned_from: bool = False
    ) -> tuple[torch.Tensor, float]:
        def extract() -> dict[str, Any]:
            z, seconds = self._of_frozen(pixels) if is_known else self.extract(pixels, views)
            return {"features": z.cpu(), "seconds": seconds}

        # What f's head was trained on is kept where the backbone is frozen.
        is_known = learned_from and views == WHOLE and self._task.config.features.freeze == "backbone"
        if views != WHOLE:
            mirrored = "-mirrored" if any(view.mirrored for view in views) else ""
            textures = sum(view.texture > 0 for view in views)
            name = f"{name}-{len(views) - textures}-views{mirrored}" + (f"-{textures}-textures" if textures else "")
        found = self._task.stages.derived(self.stage.folder, name, extract, lambda state: _fits(state, len(pixels)))
        return found["features"].to(self.device), float(found["seconds"])

    def _of_frozen(self, pixels: np.ndarray) -> tuple[torch.Tensor, float]:
        """Raw features `(n, d)` by what is kept of the backbone, and the seconds that they took."""
        assert isinstance(self.net, FeatureNet)
        began = time.perf_counter()
        pooled = backbone_features(self.net, pixels, self.device, self._task.reporter)
        return head_features(self.net, pooled, pixels.shape[1:3]), time.perf_counter() - began


def _fits(state: Any, images: int) -> bool:
    """Whether a file holds the features `(images, d)` of so many images and how long they took."""
    if not isinstance(state, dict) or not isinstance(state.get("seconds"), float):
        return False
    z = state.get("features")
    return isinstance(z, torch.Tensor) and z.ndim == 2 and len(z) == images and z.is_floating_point()


def build_task_net(task: TrainingTask, *, pretrained: bool) -> FeatureNet:
    """f before training, or the shape of it for a trained state to be loaded into."""
    return build_net(task.config, task.source.image_size, pretrained=pretrained, backbone=task.network)


def train_feature_stage(task: TrainingTask) -> FeatureStage:
    """Stage 1 on the task's source, then on its images to adapt to, if any; found again if it was trained before."""
    ids = list(features_ids(task.key))
    base_task = task.without_adaptation()
    stages = [task.stages.get(ids.pop(0), lambda checkpoint: _train(base_task, checkpoint))]
    if task.config.features.keep_pretrained:
        trained = stages[-1]
        stages.append(task.stages.get(ids.pop(0), lambda _: _interpolate(base_task, trained)))
    if task.adapt is not None:
        before = stages[-1]
        stages.append(task.stages.get(ids.pop(0), lambda checkpoint: _fine_tune(task, before, checkpoint)))
    return FeatureStage(task, tuple(stages))


def _train(task: TrainingTask, checkpoint: Path | None) -> dict[str, Any]:
    config = task.config
    train, held_out = task.split
    trained = train_features(
        config.features,
        build_task_net(task, pretrained=True),
        task.source,
        train,
        held_out,
        seed=config.seed,
        device=task.device,
        checkpoint=checkpoint,
        reporter=task.reporter,
        on_epoch=task.on_epoch,
    )
    return _state(trained)


def _interpolate(task: TrainingTask, trained: Stage) -> dict[str, Any]:
    """The trained f with its backbone on the way back to where it started; the head stays as it was trained."""
    start, net = build_task_net(task, pretrained=True), build_task_net(task, pretrained=False)
    trained.load_into(net, "net")
    interpolate_back(net.backbone, start.backbone, task.config.features.keep_pretrained)
    return {"net": net.state_dict(), "objective": trained.part("objective"), "report": trained.part("report")}


def _fine_tune(task: TrainingTask, base: Stage, checkpoint: Path | None) -> dict[str, Any]:
    net = build_task_net(task, pretrained=False)
    base.load_into(net, "net")
    trained = train_features(
        fine_tuning_config(task.config.features),
        net,
        *task.together,
        seed=task.config.seed,
        device=task.device,
        checkpoint=checkpoint,
        reporter=task.reporter,
        objective_state=base.part("objective"),
    )
    return _state(trained)


def _state(trained: TrainedFeatures) -> dict[str, Any]:
    return {
        "net": trained.net.state_dict(),
        "objective": trained.objective.state_dict(),
        "report": trained.report.as_dict(),
    }
