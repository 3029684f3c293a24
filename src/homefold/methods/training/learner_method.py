"""A training-time method in one file: its hyper-parameters as fields, and the learner they make."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from types import MappingProxyType
from typing import Any, ClassVar

from homefold.config import HomefoldConfig
from homefold.features.network import FeatureNet
from homefold.methods.base import Method, require_numbers, require_plain_look
from homefold.methods.trained_classifier import TrainedClassifier
from homefold.methods.training.deep_all import deep_all_config
from homefold.methods.training.learner import Learner, LearningTask
from homefold.methods.training.learner_stage import (
    LearnerStage,
    learner_id,
    plain_training,
    require_plain,
    train_learner_stage,
)
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import StageId

__all__ = ["LearnerMethod", "SearchRange", "TrainedLearner", "tunable"]


@dataclass(frozen=True)
class SearchRange:
    """Where to look for a better value: between `low` and `high`, on a logarithmic scale if `log`, or `choices`."""

    low: float = 0.0
    high: float = 0.0
    log: bool = False
    choices: tuple[Any, ...] = ()


def tunable(
    default: Any,
    low: float = 0.0,
    high: float = 0.0,
    *,
    log: bool = False,
    choices: tuple[Any, ...] = (),
    least: float = 0,
    most: float = math.inf,
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

    >>> @dataclass(frozen=True)
    ... class Example:
    ...     weight: float = tunable(1.0, 0.01, 10, log=True)
    >>> Example().weight
    1.0
    """
    search = SearchRange(low, high, log, choices)
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

    @abstractmethod
    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        """What is trained; the modules it builds are drawn from the run's seed.

        Args:
            net: f before training.
            task: the size of things.
        """

    @classmethod
    def search_space(cls) -> dict[str, SearchRange]:
        """The search range of each hyper-parameter that has one."""
        return {item.name: item.metadata["search"] for item in fields(cls) if "search" in item.metadata}

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        config = super().starting(config)
        return replace(config, features=plain_training(config.features))

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        config.views()  # complains of too many before any work
        require_plain_look(config, self.info.name, views=False)
        require_plain(config.features, self.info.name)
        return deep_all_config(config)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        base = (learner_id(replace(key, adapt=""), self),) if key.adapt else ()
        return (*base, learner_id(key, self))

    def train(self, task: TrainingTask) -> TrainedLearner:
        return TrainedLearner(task, train_learner_stage(task, self))


class TrainedLearner(TrainedClassifier):
    """Answers by the learner's own linear layer on the features it predicts from.

    Args:
        task: what it was trained on.
        features: the trained learner.
    """

    def __init__(self, task: TrainingTask, features: LearnerStage) -> None:
        self.learner = features.learner
        super().__init__(task, features, self.learner.linear_layer())
