"""What stages 2 and 3 are trained on: the features of the source images, and of the few of the target to adapt to."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from homefold.stages.feature_model import to_sphere
from homefold.stages.features import FeatureStage
from homefold.stages.task import TrainingTask

__all__ = ["TrainingFeatures"]


@dataclass(frozen=True, eq=False)
class TrainingFeatures:
    """Prepared features that stages 2 and 3 train on and select on: `(n, d)` with `(n,)` labels each."""

    train: torch.Tensor
    train_labels: torch.Tensor
    held_out: torch.Tensor
    held_out_labels: torch.Tensor

    @staticmethod
    def of(task: TrainingTask, features: FeatureStage, *, evenly: bool = True) -> TrainingFeatures:
        """The source's and, in few-shot adaptation, the samples' beside them; what is held out is the source's alone.

        Where `evenly`, the samples are repeated until they are as many as a source domain's images.
        """
        train, held_out = task.split
        prepare = to_sphere if task.config.normalise_features else torch.Tensor.float
        labels = torch.from_numpy(task.source.labels).to(task.device)
        z, rows, held = features.source(), torch.from_numpy(train), torch.from_numpy(held_out)
        train_z, train_y = prepare(z[rows]), labels[rows]
        if task.adapt is not None:
            of_domain = len(train) / len(task.source.domain_names)
            times = max(1, round(of_domain / len(task.adapt))) if evenly else 1
            few = torch.from_numpy(task.adapt.labels).to(task.device)
            train_z = torch.cat([train_z, prepare(features.adapt()).repeat(times, 1)])
            train_y = torch.cat([train_y, few.repeat(times)])
        return TrainingFeatures(train_z, train_y, prepare(z[held]), labels[held])
