"""Training a learner and finding it again: one stage of its own for a source, settings, a method and a seed."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from homefold.data.dataset import DomainDataset
from homefold.errors import ConfigError
from homefold.features import FeatureConfig
from homefold.features.loop import Batch, ParameterGroup, TrainingRun, complete_run
from homefold.features.training import FeatureReport
from homefold.methods.base import code_key
from homefold.methods.training.learner import Learner, LearningTask
from homefold.runtime.seeding import isolated_seed
from homefold.stages.encoder import frozen
from homefold.stages.features import FeatureStage, build_task_net, decisive_settings, fine_tuning_config
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id

if TYPE_CHECKING:
    from homefold.methods.training.learner_method import LearnerMethod

__all__ = ["LearnerStage", "learner_id", "plain_training", "require_plain", "train_learner_stage"]

_OF_STAGE_1_ALONE = ("freeze", "keep_pretrained", "mix_style_probability", "runs")


def learner_id(key: TaskKey, method: LearnerMethod) -> StageId:
    """The stage of this learner on this source; the fine-tuned one where there are images to adapt to."""
    config, code = key.config, code_key(method)
    base = stage_id(
        "learner",
        method=method.info.name,
        settings=method.settings(),
        source=key.source,
        preprocessing=asdict(config.preprocessing),
        features=decisive_settings(config.features),
        seed=config.seed,
        **({"code": code} if code else {}),
    )
    if not key.adapt:
        return base
    tuned = decisive_settings(fine_tuning_config(config.features))
    return stage_id("learner", base=base.digest, adapt=key.adapt, features=tuned, seed=config.seed)


class LearnerStage(FeatureStage):
    """A trained learner and the features it predicts from, each computed once.

    Args:
        task: what it was trained on.
        method: makes the learner.
        stages: its states in their order; the last one answers, and was fine-tuned from the one before, if any.
    """

    def __init__(self, task: TrainingTask, method: LearnerMethod, stages: tuple[Stage, ...]) -> None:
        super().__init__(task, stages)
        self._method = method

    @cached_property
    def learner(self) -> Learner:
        """As it was selected, frozen, on the task's device."""
        learner = _build(self._task, self._method, pretrained=False)
        self.stage.load_into(learner, "learner")
        frozen(learner, self._task.device)
        return learner

    @cached_property
    def net(self) -> nn.Module:
        # Where a learner predicts from f alone, nothing that only its training needed comes along.
        own = type(self.learner).features is not Learner.features
        return _Features(self.learner) if own else self.learner.net


class _Features(nn.Module):
    """Images to the features that a learner predicts from."""

    def __init__(self, learner: Learner) -> None:
        super().__init__()
        self.learner = learner

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.learner.features(images)


def train_learner_stage(task: TrainingTask, method: LearnerMethod) -> LearnerStage:
    """The learner on the task's source, then on its images to adapt to, if any; found if it was trained before."""
    require_plain(task.config.features, method.info.name)
    base_task = task.without_adaptation()
    base = task.stages.get(learner_id(base_task.key, method), lambda checkpoint: _train(base_task, method, checkpoint))
    if task.adapt is None:
        return LearnerStage(task, method, (base,))
    tuned = task.stages.get(learner_id(task.key, method), lambda checkpoint: _adapt(task, method, base, checkpoint))
    return LearnerStage(task, method, (base, tuned))


def _build(task: TrainingTask, method: LearnerMethod, *, pretrained: bool) -> Learner:
    config, source = task.config, task.source
    net = build_task_net(task, pretrained=pretrained)
    sizes = LearningTask(
        num_classes=len(source.class_names),
        num_domains=len(source.domain_names),
        num_images=len(task.split[0]),
        image_size=source.image_size,
        seed=config.seed,
    )
    with isolated_seed(config.seed, "learner"):
        return method.learner(net, sizes)


def _train(task: TrainingTask, method: LearnerMethod, checkpoint: Path | None) -> dict[str, Any]:
    train, held_out = task.split
    learner = _build(task, method, pretrained=True)
    run = _LearnerRun(task.config.features, learner, task.source, train, held_out, task)
    return _complete(run, task, method, checkpoint)


def _adapt(task: TrainingTask, method: LearnerMethod, base: Stage, checkpoint: Path | None) -> dict[str, Any]:
    assert task.adapt is not None
    learner = _build(task, method, pretrained=False)
    base.load_into(learner, "learner")
    everything = np.arange(len(task.adapt))
    # With a handful of images none is held out: the last epoch is kept, and selection has nothing to choose.
    config = fine_tuning_config(task.config.features)
    run = _AdaptationRun(config, learner, task.adapt, everything, everything, task)
    return _complete(run, task, method, checkpoint)


def _complete(run: _LearnerRun, task: TrainingTask, method: LearnerMethod, checkpoint: Path | None) -> dict[str, Any]:
    complete_run(run, checkpoint=checkpoint, reporter=task.reporter, title=method.info.name)
    report = FeatureReport(
        criterion="cross entropy",
        spread=run.put_back_best(),
        selected_epoch=run.best_epoch,
        held_out_loss=run.best_value,
        bound=0.0,
        history=tuple(run.history),
    )
    return {"learner": run.net.state_dict(), "report": report.as_dict()}


def plain_training(config: FeatureConfig) -> FeatureConfig:
    """A preset without what only stage 1 follows, at a learning rate that the learners were found to be stable at."""
    plain = FeatureConfig()
    rate = min(config.learning_rate, plain.learning_rate)
    return replace(config, learning_rate=rate, **{name: getattr(plain, name) for name in _OF_STAGE_1_ALONE})


def require_plain(config: FeatureConfig, method: str) -> None:
    """Refuse settings that only stage 1 follows, instead of training as if they had not been given.

    Args:
        config: as it was asked for.
        method: name of the training-time method that would ignore them.
    """
    plain = FeatureConfig()
    given = [f"features.{name}" for name in _OF_STAGE_1_ALONE if getattr(config, name) != getattr(plain, name)]
    if given:
        raise ConfigError(
            f"{method} does not follow {' and '.join(given)}, of stage 1 alone; leave out {method}, or give the "
            f"setting to another method alone, as in vae:{given[0]}=VALUE."
        )


class _LearnerRun(TrainingRun):
    """A learner under its own loss, selected by the cross entropy of held-out source images, as Deep All is."""

    net: Learner

    def __init__(
        self,
        config: FeatureConfig,
        learner: Learner,
        dataset: DomainDataset,
        train: np.ndarray,
        held_out: np.ndarray,
        task: TrainingTask,
    ) -> None:
        super().__init__(config, learner, nn.Module(), dataset, train, held_out, task.config.seed, task.device)

    @property
    def recordable(self) -> bool:
        return self.net.recordable

    def parameter_groups(self) -> list[ParameterGroup]:
        return self.net.parameter_groups()

    def epoch_start(self) -> None:
        self.net.epoch_start(self.epoch, self.training_images)

    def batch_loss(self, batch: Batch) -> torch.Tensor:
        return self.net.loss(batch)

    def held_out(self, output: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        z, logits = output
        return z.float(), logits.float()

    def criterion(self, z: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores, labels)


class _AdaptationRun(_LearnerRun):
    """A trained learner that goes on with a few labelled images of one new domain."""

    @property
    def recordable(self) -> bool:
        return False

    def epoch_start(self) -> None:
        pass

    def batch_loss(self, batch: Batch) -> torch.Tensor:
        return self.net.adaptation_loss(batch)
