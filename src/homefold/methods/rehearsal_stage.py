"""Networks that rehearse: stage 1 on all source domains but one, the very stage of a run on those domains."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from homefold.data.splits import selection_split
from homefold.errors import ConfigError
from homefold.evaluation.identity import DatasetKeys
from homefold.evaluation.protocols import source_dataset
from homefold.evaluation.stage_store import Stage, StageId
from homefold.feature_model import to_sphere
from homefold.manifold import Rehearsed, rehearse, require_domains
from homefold.methods.base import ImageSet, TaskKey, TrainingTask
from homefold.methods.feature_stage import FeatureStage, features_id, train_feature_stage

__all__ = ["rehearsal_ids", "rehearsal_stages", "rehearsed_stage_features"]


def rehearsal_ids(key: TaskKey) -> tuple[StageId, ...]:
    """Stage 1 without each of the source domains; none where the settings do not rehearse."""
    if not key.config.manifold.rehearse:
        return ()
    if key.adapt:
        raise ConfigError(
            "few-shot adaptation cannot rehearse: the labelled samples are of the unseen domain itself; set "
            "manifold.rehearse to 0."
        )
    require_domains(key.config.manifold, len(key.without))
    return tuple(features_id(_key_without(key, domain)) for domain in range(len(key.without)))


def _key_without(key: TaskKey, domain: int) -> TaskKey:
    return replace(key, source=key.without[domain], without=())


def _task_without(task: TrainingTask, domain: int) -> TrainingTask:
    """The task of an ordinary run on the other domains."""
    rows = np.flatnonzero(task.source.domains != domain)
    return replace(task, key=_key_without(task.key, domain), source=source_dataset(task.source, rows))


def rehearsal_stages(task: TrainingTask) -> tuple[Stage, ...]:
    """The stages of `rehearsal_ids`, trained if they were not before."""
    stages = []
    for domain, stage in enumerate(rehearsal_ids(task.key)):
        if not task.stages.has(stage):
            task.reporter.message(f"Rehearsal: features trained without {task.source.domain_names[domain]}.")
        stages.append(train_feature_stage(_task_without(task, domain)).stage)
    return tuple(stages)


def rehearsed_stage_features(task: TrainingTask, features: FeatureStage, stages: tuple[Stage, ...]) -> Rehearsed | None:
    """What stands for each source feature when its domain is unseen; None where the settings do not rehearse.

    Args:
        task: source and settings.
        features: f.
        stages: of `rehearsal_stages`.
    """
    config, source = task.config, task.source
    if not config.manifold.rehearse:
        return None
    space = config.manifold.space
    prepare = to_sphere if config.normalise_features else torch.Tensor.float

    def without(domain: int) -> torch.Tensor:
        unseen = FeatureStage(_task_without(task, domain), stages[domain])
        own = torch.from_numpy(source.domains == domain).to(task.device)
        z = torch.empty(len(source), features.source(space).shape[1], device=task.device)
        z[~own] = unseen.source(space)
        z[own] = unseen.of(_images_of(task, domain), space)[0]
        return prepare(z)

    train, held_out = (
        torch.from_numpy(rows) for rows in selection_split(source, config.features.held_out, config.seed)
    )
    z = rehearse(prepare(features.source(space)), torch.from_numpy(source.domains), train, without, prepare)
    return Rehearsed(z[train.to(z.device)], z[held_out.to(z.device)])


def _images_of(task: TrainingTask, domain: int) -> ImageSet:
    """The source images of a domain under the key that they have as a target: their features may be there already."""
    own = task.source.subset(np.flatnonzero(task.source.domains == domain))
    return ImageSet(own.images, DatasetKeys(own).of_images(np.arange(len(own))))
