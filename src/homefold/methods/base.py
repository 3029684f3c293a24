"""The one interface that the benchmark drives: what a method is given, what it returns, how it answers."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from inspect import formatannotation
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.config.values import Finite, Integer, checked_value
from homefold.errors import ConfigError
from homefold.methods.recipe import Recipe
from homefold.methods.registry import MethodInfo
from homefold.runtime.code import joined_keys, key_of_thing
from homefold.stages.predictions import NOT_SEARCHED, Predictions
from homefold.stages.task import ImageSet, TaskKey, TrainingTask
from homefold.store.stage_store import Stage, StageId

__all__ = [
    "Answers",
    "ClassifierNetwork",
    "Method",
    "MethodInfo",
    "TestTimeMethod",
    "TrainedMethod",
    "code_key",
    "plain_predictions",
]


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers for a set of images, and what the analyses want to see of how they came about.

    Args:
        predictions: one a sample.
        seconds: that it took to answer for all of them, features included.
        features: `(n, d)` as the classifier would see them without projection; None where a method has none.
        projected: `(n, d)` where the projection brought them; None without projection.
        before: answers without projection; None where there is none.
        curves: `loss` `(samples, steps)` of searches, `samples` `(samples,)` whose they are, `elbow` `(samples,)`.
    """

    predictions: Predictions
    seconds: float
    features: torch.Tensor | None = None
    projected: torch.Tensor | None = None
    before: Predictions | None = None
    curves: dict[str, np.ndarray] = field(default_factory=dict)


class ClassifierNetwork(nn.Module):
    """A trained network in two parts, from images `(n, 3, h, w)` in [0, 1] to logits `(n, classes)`.

    Args:
        features: images to z `(n, d)`.
        layer: z to logits; an `nn.Linear` where the classifier is linear.
    """

    def __init__(self, features: nn.Module, layer: nn.Module) -> None:
        super().__init__()
        self.features, self.layer = features, layer

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.layer(self.features(images).float())
        return logits


class TrainedMethod(ABC):
    """A method after training."""

    @property
    @abstractmethod
    def stages(self) -> tuple[Stage, ...]:
        """The trained stages that it stands on."""

    @abstractmethod
    def answer(self, images: ImageSet) -> Answers:
        """Answers for images of any domain, in their order."""

    def reset(self) -> None:  # noqa: B027 - a stateless method has nothing to forget
        """Forget what earlier target images taught; called before every target."""

    def source_features(self) -> torch.Tensor | None:
        """`(n, d)` features of all source images, prepared like `Answers.features`; None where there are none."""
        return None

    def classifier_network(self) -> ClassifierNetwork | None:
        """A copy of the network and of its last layer, in eval mode and frozen, for a test-time method to change.

        None where the answers do not come from one network.
        """
        return None

    def facts(self) -> dict[str, Any]:
        """Plain values for the record: what was measured on held-out source images."""
        return {}

    def networks(self) -> tuple[nn.Module, ...]:
        """All that was trained, what serves training alone included, so that its parameters can be counted."""
        return ()

    @property
    def training_seconds(self) -> float:
        """What all its stages took to train, whoever trained them."""
        return sum(stage.seconds for stage in self.stages)


class Method(ABC):
    """A way to learn from source domains and to answer for unseen ones.

    A method is a frozen dataclass: its own hyper-parameters are its fields, and they stand in every record.
    """

    about: ClassVar[MethodInfo]
    """What it is, by itself."""
    recipes: ClassVar[Mapping[str, Recipe]] = MappingProxyType({})
    """How its authors run it, by kind of network; none for what has no other recipe than the benchmark's."""
    least_domains: ClassVar[int] = 1
    """How many domains its training must see to have any signal of its own."""

    @property
    def info(self) -> MethodInfo:
        """What it is, with what it stands on."""
        return self.about

    @property
    def own_name(self) -> str:
        """Its name, without what it wraps."""
        return self.info.name.partition("+")[0]

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        """What of a preset it begins with, before anything that was asked for is changed in it.

        Bringing styles home is part of the projection: what does not project begins without. Where blocks are asked
        for all the same, styles are brought as the preset brings them.
        """
        return replace(config, style=replace(config.style, blocks=()))

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        """The settings it runs with; what it cannot follow is refused.

        Args:
            config: the benchmark's, that began as `starting` says.
            preset: the name they came from.
        """
        return config

    @property
    def tunables(self) -> tuple[str, ...]:
        """The common settings that a random search draws for it, beside its own; each declares its range."""
        return ("features.learning_rate", "features.weight_decay", "features.batch_size")

    def without_signal(self, sources: int, shots: int) -> str:
        """Why it would train as Deep All under another name; empty where it would not.

        Args:
            sources: how many source domains it is trained on.
            shots: how many labelled target images it is given.
        """
        if sources >= self.least_domains:
            return ""
        return (
            f"{self.own_name} compares source domains, and there is {sources} here: nothing would be left of it but "
            f"Deep All. Leave it out, or run it on {self.least_domains} source domains or more."
        )

    @abstractmethod
    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        """The stages that training will need, so that a plan can be made before any work."""

    @abstractmethod
    def train(self, task: TrainingTask) -> TrainedMethod:
        """Train on the source, sharing stages where it can."""

    def varied(self, **settings: Any) -> Method:
        """The same method with hyper-parameters of its own changed."""
        return replace(self, **settings)  # type: ignore[type-var]

    def settings(self) -> dict[str, Any]:
        """Its own hyper-parameters as plain values."""
        own = [item.name for item in fields(self) if item.init]  # type: ignore[arg-type]
        return {name: getattr(self, name) for name in own if name not in ("about", "base")}


@dataclass(frozen=True)
class TestTimeMethod(Method):
    """A method that takes a finished one, its `base`, and changes how it answers; its training is the other's."""

    __test__: ClassVar[bool] = False  # pytest takes classes called Test… for tests
    looks_as_asked: ClassVar[bool] = False
    """Whether it sees a target as `look.views` and `style` say; others are refused such settings."""

    base: Method

    def __post_init__(self) -> None:
        require_numbers(self)

    @abstractmethod
    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        """The trained method with the other way to answer."""

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        config = super().starting(self.base.starting(config))
        return config if self.looks_as_asked else replace(config, look=config.look.plain)

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        config = self.base.configure(config, preset)
        if not self.looks_as_asked:
            require_plain_look(config, self.info.name)
        return config

    @property
    def info(self) -> MethodInfo:
        return self.about.wrapping(self.base.info)

    @property
    def tunables(self) -> tuple[str, ...]:
        return self.base.tunables

    def without_signal(self, sources: int, shots: int) -> str:
        return self.base.without_signal(sources, shots)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return self.base.planned_stages(key)

    def train(self, task: TrainingTask) -> TrainedMethod:
        return self.wrap(self.base.train(task), task)

    def settings(self) -> dict[str, Any]:
        return {**super().settings(), "base": self.base.info.name, "base_settings": self.base.settings()}


def code_key(method: Method) -> str:
    """Stands for the code of a method that is not this package's, and of what it wraps; empty for the package's own."""
    inside: list[Any] = [getattr(method, item.name) for item in fields(method)] if is_dataclass(method) else []
    return joined_keys([key_of_thing(type(method)), *(code_key(item) for item in inside if isinstance(item, Method))])


def require_numbers(method: Method) -> None:
    """Refuse numbers among a method's own settings that are negative, not finite, or outside of what has a meaning."""
    name = method.own_name
    for item in fields(method):  # type: ignore[arg-type]
        # By the text of the annotation: the types of a method from a plugin need not be found anywhere.
        hint = _NUMBERS.get(item.type if isinstance(item.type, str) else formatannotation(item.type))
        if hint is None:
            continue
        value = checked_value(hint, getattr(method, item.name), f"{item.name} of {name}")
        object.__setattr__(method, item.name, value)
        least, most = item.metadata.get("least", 0), item.metadata.get("most", math.inf)
        if not all(least <= number <= most for number in (value if isinstance(value, tuple) else (value,))):
            allowed = "zero or a positive number" if least == 0 else f"at least {least:g}"
            allowed = f"a number from {least:g} to {most:g}" if most < math.inf else allowed
            raise ConfigError(f"{item.name} of {name} must be {allowed}; got {value}.")


_NUMBERS = {
    "int": Integer,
    "float": Finite,
    "tuple[int, ...]": tuple[Integer, ...],
    "tuple[float, ...]": tuple[Finite, ...],
}


def require_plain_look(config: HomefoldConfig, name: str, *, views: bool = True) -> None:
    """Refuse settings of how target images are seen that a method would ignore: views and styles, or styles alone."""
    asked = config.look
    ignored = [f"look.views={asked.views}"] if views and asked.views > 1 else []
    ignored += [f"look.textures={asked.textures}"] if views and asked.textures else []
    ignored += [f"style.blocks={'/'.join(config.style.blocks)}"] if config.style.blocks else []
    if ignored:
        raise ConfigError(
            f"{name} looks at target images as they are and would ignore {' and '.join(ignored)}; give that to other "
            f"methods alone, as in vae:{ignored[0]}."
        )


def plain_predictions(class_names: tuple[str, ...], probabilities: np.ndarray) -> Predictions:
    """Answers of a method that projects nothing. probabilities: `(n, classes)`."""
    n = len(probabilities)
    return Predictions(
        class_names=class_names,
        probabilities=probabilities,
        similarity_before=np.ones(n, dtype=np.float32),
        similarity_after=np.ones(n, dtype=np.float32),
        iterations=np.zeros(n, dtype=np.int64),
        start=np.zeros(n, dtype=np.int64),
        off_manifold=np.full(n, np.nan, dtype=np.float32),
        projected=np.zeros(n, dtype=bool),
        start_names=NOT_SEARCHED,
    )
