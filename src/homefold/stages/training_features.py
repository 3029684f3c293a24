"""What stages 2 and 3 are trained on: the features of the source images, or of the few of the target to adapt to."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from homefold.stages.feature_model import to_sphere
from homefold.stages.features import FeatureStage
from homefold.stages.task import TrainingTask

__all__ = ["TUNING_EPOCHS", "TUNING_RATE", "TrainingFeatures", "before_adaptation"]

TUNING_EPOCHS = 20
"""Epochs at most of a stage that is fine-tuned on samples of the target."""
TUNING_RATE = 0.1
"""Share of its learning rate that it is fine-tuned at."""


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """Prepared features that stages 2 and 3 train on and select on: `(n, d)` with `(n,)` labels each."""

    train: torch.Tensor
    train_labels: torch.Tensor
    held_out: torch.Tensor
    held_out_labels: torch.Tensor

    @staticmethod
    def of(task: TrainingTask, features: FeatureStage) -> TrainingFeatures:
        """The source's, whether or not there are target samples to adapt to."""
        train, held_out = task.split
        labels = torch.from_numpy(task.source.labels).to(task.device)
        z, rows, held = features.source(), torch.from_numpy(train), torch.from_numpy(held_out)
        prepare = to_sphere if task.config.normalise_features else torch.Tensor.float
        return TrainingFeatures(prepare(z[rows]), labels[rows], prepare(z[held]), labels[held])

    @staticmethod
    def to_adapt_to(task: TrainingTask, features: FeatureStage) -> TrainingFeatures:
        """The labelled target samples of few-shot adaptation; what is held out is the source's still."""
        assert task.adapt is not None
        prepare = to_sphere if task.config.normalise_features else torch.Tensor.float
        labels = torch.from_numpy(task.adapt.labels).to(task.device)
        source = TrainingFeatures.of(task, features)
        return replace(source, train=prepare(features.adapt()), train_labels=labels)

    def with_samples(self, samples: TrainingFeatures) -> TrainingFeatures:
        """These and the samples after them."""
        train = torch.cat([self.train, samples.train])
        return replace(self, train=train, train_labels=torch.cat([self.train_labels, samples.train_labels]))


def before_adaptation(task: TrainingTask, features: FeatureStage) -> tuple[TrainingTask, FeatureStage]:
    """The task and its stage 1 as they were before any target sample was seen."""
    before = task.without_adaptation()
    return before, FeatureStage(before, features.stages[:-1])
