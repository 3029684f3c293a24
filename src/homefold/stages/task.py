"""What the stages are trained on and asked about."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.data.dataset import DomainDataset
from homefold.data.splits import selection_split
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.store.stage_store import StageStore

__all__ = ["ImageSet", "TaskKey", "TrainingTask"]


@dataclass(frozen=True)
class TaskKey:
    """All that decides the outcome of a training, without the images themselves.

    Args:
        source: key of the labelled source images.
        config: every setting, the seed among them.
        adapt: key of the labelled target images to fine-tune on; empty when there are none.
        network: stands for a network that is not built from the settings; empty for one that is.
        deterministic: whether only algorithms are used that give the same bytes every time.
    """

    source: str
    config: HomefoldConfig
    adapt: str = ""
    network: str = ""
    deterministic: bool = False


@dataclass(frozen=True, eq=False)
class TrainingTask:
    """What a method is given to train on: source images and nothing of the target.

    Args:
        key: identifies the outcome.
        source: labelled images with their domains.
        device: where to train.
        stages: finds stages that were trained before, and keeps new ones.
        reporter: is told the progress.
        adapt: labelled target images to fine-tune on, in few-shot adaptation only.
        network: the backbone, where it is not built from the settings; trained in place.
        on_epoch: is called with the figures of each epoch of stage 1.
    """

    key: TaskKey
    source: DomainDataset
    device: torch.device
    stages: StageStore
    reporter: ProgressReporter = field(default_factory=SilentReporter)
    adapt: DomainDataset | None = None
    network: nn.Module | None = None
    on_epoch: Callable[[dict[str, float]], None] | None = None

    @property
    def split(self) -> tuple[np.ndarray, np.ndarray]:
        """Indices of the source images to train on and of those to select on."""
        return selection_split(self.source, self.config.features.held_out, self.config.seed)

    @property
    def together(self) -> tuple[DomainDataset, np.ndarray, np.ndarray]:
        """The source with the samples of few-shot adaptation as one domain more, and the indices of both as `split`.

        All samples are trained on: a handful leaves none to select on.
        """
        assert self.adapt is not None
        source, few = self.source, self.adapt
        joined = replace(
            source,
            images=np.concatenate([source.images, few.images]),
            labels=np.concatenate([source.labels, few.labels]),
            domains=np.concatenate([source.domains, np.full(len(few), len(source.domain_names))]),
            domain_names=(*source.domain_names, *few.domain_names),
            paths=(),
            splits=(),
        )
        train, held_out = self.split
        return joined, np.concatenate([train, np.arange(len(source), len(joined))]), held_out

    def without_adaptation(self) -> TrainingTask:
        """The same before any image of the target was seen."""
        return replace(self, key=replace(self.key, adapt=""), adapt=None)

    @property
    def config(self) -> HomefoldConfig:
        """Every setting."""
        return self.key.config


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images without labels: all that a trained method is given of a target.

    Args:
        pixels: `(n, h, w, 3)` uint8.
        key: identifies them, so that what is computed from them can be kept; empty keeps nothing.
    """

    pixels: np.ndarray
    key: str = ""
