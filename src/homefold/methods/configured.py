"""A method under settings of its own where the other methods of a benchmark have the common ones."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any

from homefold.config import HomefoldConfig
from homefold.config.grammar import change_settings, parse_setting
from homefold.config.migration import current_names
from homefold.errors import ConfigError
from homefold.methods.base import Method, MethodInfo, TrainedMethod
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import StageId

__all__ = ["ConfiguredMethod", "configured", "without_changes"]

_NUMBERS = re.compile(r"[-+.\deE]+(/[-+.\deE]+)+")
# What a run is identified by, or what all methods must share to be comparable.
_DECIDED_FOR_ALL = (
    "seed",
    "features.backbone",
    "features.select",
    "features.held_out",
    "preprocessing.image_size",
    "preprocessing.resize",
    "preprocessing.normalisation",
)


@dataclass(frozen=True)
class ConfiguredMethod(Method):
    """`method`, with some of the settings that are common to all methods changed for it alone.

    It runs as `method` would in a benchmark whose settings say the same, and so shares every stage that does not depend
    on what is changed.

    Args:
        method: what is run.
        changes: `name=value` with dotted names.
    """

    method: Method
    changes: tuple[str, ...]

    def __post_init__(self) -> None:
        names = [_parsed(change)[0] for change in self.changes]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"{name} is set more than once for {self.method.info.name}; give it one value.")
            if name in _DECIDED_FOR_ALL:
                raise ConfigError(f"{name} cannot be set for {self.method.info.name} alone; set it for all methods.")
        change_settings(HomefoldConfig(), self._values(), names_only=True)

    def _values(self) -> dict[str, Any]:
        return dict(_parsed(change) for change in self.changes)

    @property
    def info(self) -> MethodInfo:
        info = self.method.info
        return replace(info, title=f"{info.title} ({', '.join(self.changes)})")

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        return self.method.starting(config)

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        values = self._values()
        config = self.method.configure(change_settings(config, values), preset)
        if not config.style.blocks and any(name.startswith("style.") for name in values.keys() - {"style.blocks"}):
            raise ConfigError(
                f"{self.method.info.name} leaves styles as they are, and {self.changes[0]} would decide nothing; add "
                f"style.blocks=early."
            )
        return config

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return self.method.planned_stages(key)

    def train(self, task: TrainingTask) -> TrainedMethod:
        return self.method.train(task)

    def settings(self) -> dict[str, Any]:
        return {**self.method.settings(), "changes": list(self.changes)}

    def varied(self, **settings: Any) -> Method:
        return replace(self, method=self.method.varied(**settings))


def configured(method: Method, changes: tuple[str, ...]) -> Method:
    """`method` under these changes to the common settings; itself where there are none."""
    return ConfiguredMethod(method, tuple(map(_with_current_name, changes))) if changes else method


def without_changes(method: Method) -> Method:
    """The method itself, whatever common settings are changed for it.

    >>> from homefold.methods import find_method
    >>> without_changes(find_method("vae:search.steps=100")) == find_method("vae")
    True
    """
    return without_changes(method.method) if isinstance(method, ConfiguredMethod) else method


def _with_current_name(change: str) -> str:
    name, equals, value = change.partition("=")
    (current,) = current_names({name: value})
    return current + equals + value


def _parsed(change: str) -> tuple[str, Any]:
    """Its name and value; slashes may stand between the numbers of a list, as in a method's own settings."""
    name, value = parse_setting(change)
    if isinstance(value, str) and _NUMBERS.fullmatch(value):
        return parse_setting(f"{name}=[{value.replace('/', ',')}]")
    return name, value
