"""A training-time method in one file: its hyper-parameters as fields, and the learner they make.

A trained learner is one stage of its own for a source, settings, a method and a seed.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import torch
from torch import nn
from torch.nn import functional as F

from homefold.config import HomefoldConfig
from homefold.config.ranges import SearchRange
from homefold.config.values import checked_value
from homefold.errors import ConfigError
from homefold.features import FeatureConfig
from homefold.features.averaging import TrainingAverage
from homefold.features.loop import Batch, ParameterGroup, TrainingRun, complete_run
from homefold.features.network import FeatureNet
from homefold.features.training import FeatureReport
from homefold.methods.base import Method, code_key, require_numbers, require_plain_look
from homefold.methods.training.deep_all import TrainedClassifier, deep_all_config
from homefold.methods.training.learner import Learner, LearningTask
from homefold.runtime.seeding import isolated_seed
from homefold.stages.encoder import frozen
from homefold.stages.features import FeatureStage, build_task_net, decisive_settings, fine_tuning_config
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId, stage_id

__all__ = ["LearnerMethod", "LearnerStage", "TrainedLearner", "tunable"]

_CHOICES: dict[str, Any] = {"optimiser": Literal["sgd", "adam"], "statistics": Literal["learned", "kept"]}
_OF_STAGE_1_ALONE = ("adapter_rank", "freeze", "keep_pretrained", "mix_style_probability", "runs")


def tunable(
    default: Any,
    low: float = 0.0,
    high: float = 0.0,
    *,
    log: bool = False,
    choices: tuple[Any, ...] = (),
    least: float = 0,
    most: float = math.inf,
    drawn: bool = True,
) -> Any:
    """A hyper-parameter: its default and its search range on one line.

    Args:
        default: its value.
        low: least value worth trying.
        high: largest value worth trying.
        log: whether the range is logarithmic.
        choices: the values worth trying, in the place of a range.
        least: the smallest value that has a meaning; a size has 1.
        most: the largest value that has a meaning; a share has 1.
        drawn: whether a random search draws it; not so for what only suits a learning rate of its own.

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     weight: float = tunable(1.0, 0.01, 10, log=True)
    >>> Example().weight
    1.0
    """
    search = SearchRange(low, high, log, choices, drawn=drawn)
    return field(default=default, metadata={"search": search, "least": least, "most": most})


@dataclass(frozen=True)
class LearnerMethod(Method):
    """A method that trains a `Learner` on labelled source batches and answers by its linear layer.

    A subclass is a frozen dataclass with its hyper-parameters as fields (see `tunable`), `about` and `learner`.
    """

    null: ClassVar[Mapping[str, Any]] = MappingProxyType({})
    """The settings at which its loss is Deep All's."""

    def __post_init__(self) -> None:
        require_numbers(self)
        for name, choices in _CHOICES.items():
            if name in (settings := self.settings()):
                checked_value(choices, settings[name], f"{name} of {self.own_name}")

    @abstractmethod
    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        """What is trained; the modules it builds are drawn from the run's seed.

        Args:
            net: f before training.
            task: the size of things.
        """

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        """A preset without what only stage 1 follows, at a learning rate that learners were found to be stable at."""
        config, plain = super().starting(config), FeatureConfig()
        rate = min(config.features.learning_rate, plain.learning_rate)
        ignored = {name: getattr(plain, name) for name in _OF_STAGE_1_ALONE}
        return replace(config, features=replace(config.features, learning_rate=rate, **ignored))

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        config.views()  # complains of too many before any work
        require_plain_look(config, self.info.name, views=False)
        self._require_plain(config.features)
        return deep_all_config(config)

    def _require_plain(self, config: FeatureConfig) -> None:
        """Refuse settings that only stage 1 follows, instead of training as if they had not been given."""
        plain, name = FeatureConfig(), self.info.name
        given = [f"features.{item}" for item in _OF_STAGE_1_ALONE if getattr(config, item) != getattr(plain, item)]
        if given:
            raise ConfigError(
                f"{name} does not follow {' and '.join(given)}, of stage 1 alone; leave out {name}, or give the "
                f"setting to another method alone, as in vae:{given[0]}=VALUE."
            )

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        """The stage of this learner on this source, then the fine-tuned one where there are images to adapt to."""
        config, code = key.config, code_key(self)
        base = stage_id(
            "learner",
            method=self.info.name,
            settings=self.settings(),
            source=key.source,
            preprocessing=asdict(config.preprocessing),
            features=decisive_settings(config.features),
            seed=config.seed,
            **({"code": code} if code else {}),
        )
        if not key.adapt:
            return (base,)
        tuned = decisive_settings(fine_tuning_config(config.features))
        return base, stage_id("learner", base=base.digest, adapt=key.adapt, features=tuned, seed=config.seed)

    def train(self, task: TrainingTask) -> TrainedLearner:
        self._require_plain(task.config.features)
        base, *tuned = self.planned_stages(task.key)
        source_task = task.without_adaptation()
        stages = [task.stages.get(base, lambda checkpoint: _train(self, source_task, None, checkpoint))]
        for identity in tuned:
            stages.append(task.stages.get(identity, lambda checkpoint: _train(self, task, stages[0], checkpoint)))
        return TrainedLearner(task, LearnerStage(task, self, tuple(stages)))


class TrainedLearner(TrainedClassifier):
    """Answers by the learner's own linear layer on the features it predicts from."""

    def __init__(self, task: TrainingTask, features: LearnerStage) -> None:
        self.learner = features.learner
        super().__init__(task, features, self.learner.linear_layer())

    def networks(self) -> tuple[nn.Module, ...]:
        return (self.learner,)


class LearnerStage(FeatureStage):
    """A trained learner and the features it predicts from, each computed once."""

    def __init__(self, task: TrainingTask, method: LearnerMethod, stages: tuple[Stage, ...]) -> None:
        super().__init__(task, stages)
        self._method = method

    @cached_property
    def learner(self) -> Learner:
        """As it was selected, frozen, on the task's device."""
        learner = _build(self._method, self._task, pretrained=False)
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


def _build(method: LearnerMethod, task: TrainingTask, *, pretrained: bool) -> Learner:
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


def _train(method: LearnerMethod, task: TrainingTask, base: Stage | None, checkpoint: Path | None) -> dict[str, Any]:
    """Train the learner on the source, or go on from `base` with the images to adapt to."""
    learner = _build(method, task, pretrained=base is None)
    if base is not None:
        base.load_into(learner, "learner")
    run = _LearnerRun(learner, task)
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


class _LearnerRun(TrainingRun):
    """A learner under its own loss, selected by the cross entropy of held-out source images, as Deep All is.

    Where there are images to adapt to, it goes on with the source and these together, under its loss for that.
    """

    net: Learner

    def __init__(self, learner: Learner, task: TrainingTask) -> None:
        config, dataset, (train, held_out) = task.config.features, task.source, task.split
        self._adapts = task.adapt is not None
        if self._adapts:
            config, (dataset, train, held_out) = fine_tuning_config(config), task.together
        self._by_adam = getattr(learner.settings, "optimiser", "sgd") == "adam"
        super().__init__(config, learner, nn.Module(), dataset, train, held_out, task.config.seed, task.device)

    @property
    def capturable(self) -> bool:
        return self.net.capturable and not self._adapts and not self._by_adam

    def make_optimizer(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        if not self._by_adam:
            return super().make_optimizer(groups)
        betas = getattr(self.net.settings, "betas", (0.9, 0.999))
        return torch.optim.Adam(
            groups, lr=self.config.learning_rate, betas=betas, weight_decay=self.config.weight_decay
        )

    def make_average(self) -> TrainingAverage:
        own = None if self._adapts else self.net.make_average()
        return super().make_average() if own is None else own

    def take_gradient(self, gradient: Callable[[], torch.Tensor]) -> torch.Tensor:
        return gradient() if self._adapts else self.net.take_gradient(gradient)

    def parameter_groups(self) -> list[ParameterGroup]:
        return self.net.parameter_groups()

    def epoch_start(self) -> None:
        if not self._adapts:
            self.net.epoch_start(self.epoch, self.training_images)

    def batch_loss(self, batch: Batch) -> torch.Tensor:
        if self._adapts:
            return self.net.adaptation_loss(batch)
        if self.net.begins_anew(batch):
            self.optimizer.state.clear()
        return self.net.loss(batch)

    def held_out(self, output: tuple[torch.Tensor, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        z, logits = output
        return z.float(), logits.float()

    def criterion(self, z: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(scores, labels)
