"""The projection of styles as the methods share it: source styles modelled once for a trained f and its settings."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.config.views import WHOLE, View
from homefold.features.backbones import build_backbone
from homefold.features.network import FeatureNet
from homefold.stages.features import FeatureStage, features_id
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id
from homefold.style import StyleConfig, StyleModel, fit_style, named_blocks, style_modules, styled_net

__all__ = ["StyledStage", "style_id", "style_ids", "styled_stage", "with_style_blocks"]


def style_id(key: TaskKey) -> StageId:
    """The styles of these sources in this f, after these blocks."""
    config = key.config
    return stage_id("style", features=features_id(key).digest, style=asdict(config.style), seed=config.seed)


def style_ids(key: TaskKey) -> tuple[StageId, ...]:
    """The styles that `styled_stage` needs."""
    return (style_id(key),) if key.config.style.blocks and not key.adapt else ()


def with_style_blocks(config: HomefoldConfig) -> HomefoldConfig:
    """`config` with the blocks of style by their names in its backbone; unknown ones are refused before training."""
    asked = config.style if config.look.styles else StyleConfig()
    return replace(config, style=_with_names(asked, config.features.backbone, config.preprocessing.image_size))


@lru_cache
def _with_names(style: StyleConfig, backbone: str, side: int) -> StyleConfig:
    if not style.blocks:
        return style
    net = build_backbone(backbone, "none", (side, side))
    named = named_blocks(style, net, (side, side))
    style_modules(net, named.blocks)
    return named


class StyledStage(FeatureStage):
    """Stage 1, where an image's style is brought to the source styles, which are `stage`, on its way."""

    def __init__(self, task: TrainingTask, features: FeatureStage, stage: Stage) -> None:
        super().__init__(task, features.stages)
        self.stages = (*features.stages, stage)
        self._plain, self._styles = features, stage

    @cached_property
    def style(self) -> StyleModel:
        """The source styles, frozen, on the task's device."""
        style = StyleModel.from_tensors(self._styles.part("tensors"), self._task.config.style)
        return style.to(self.device).eval().requires_grad_(False)

    @cached_property
    def net(self) -> nn.Module:
        assert isinstance(self._plain.net, FeatureNet)
        return styled_net(self._plain.net, self.style)

    def _features(
        self, name: str, pixels: np.ndarray, views: tuple[View, ...] = WHOLE, *, learned_from: bool = False
    ) -> tuple[torch.Tensor, float]:
        # The kept features of a frozen backbone are those of styles as they are.
        return super()._features(f"{name}-{self._styles.folder.name}", pixels, views)


def styled_stage(task: TrainingTask, features: FeatureStage) -> FeatureStage:
    """Stage 1 with styles brought home where the settings say so, else `features` itself.

    What was adapted to images of the target has seen its style, which is left as it is.
    """
    config = task.config
    if not config.style.blocks or task.adapt is not None:
        return features

    def train(_: Any) -> dict[str, Any]:
        assert isinstance(features.net, FeatureNet)
        style = fit_style(
            config.style,
            features.net,
            task.source.images,
            task.split[0],
            domains=task.source.domains,
            device=task.device,
        )
        return {"tensors": style.state_dict()}

    return StyledStage(task, features, task.stages.get(style_id(task.key), train))
