"""What the stages are trained on and asked about."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch

from homefold.config import HomefoldConfig
from homefold.data.dataset import DomainDataset
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
    """

    source: str
    config: HomefoldConfig
    adapt: str = ""


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
    """

    key: TaskKey
    source: DomainDataset
    device: torch.device
    stages: StageStore
    reporter: ProgressReporter = field(default_factory=SilentReporter)
    adapt: DomainDataset | None = None

    @property
    def config(self) -> HomefoldConfig:
        """Every setting."""
        return self.key.config


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images without labels: all that a trained method is given of a target.

    Args:
        pixels: `(n, h, w, 3)` uint8.
        key: identifies them.
    """

    pixels: np.ndarray
    key: str
