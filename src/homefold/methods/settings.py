"""What follows a method's name: its own hyper-parameters, and common settings that are changed for it alone."""

from __future__ import annotations

import re
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any

from homefold.config import HomefoldConfig
from homefold.config.grammar import change_settings, parse_setting
from homefold.config.migration import current_names
from homefold.errors import ConfigError, shown
from homefold.methods.base import Method, MethodInfo, TrainedMethod
from homefold.methods.recipe import Training
from homefold.stages.task import TaskKey, TrainingTask
from homefold.store.stage_store import StageId

__all__ = [
    "ConfiguredMethod",
    "MethodSetting",
    "configured",
    "method_settings",
    "with_settings",
    "without_changes",
    "written",
]

_BETWEEN_VALUES = "/"
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
class MethodSetting:
    """A hyper-parameter of a method: what people type, its value unless they do, and where to look for a better one."""

    name: str
    default: Any
    search: str


def method_settings(method: Method) -> tuple[MethodSetting, ...]:
    """The hyper-parameters of a method's own; those of what a test-time method wraps are not among them."""
    found = []
    for item in fields(method):  # type: ignore[arg-type]
        search = item.metadata.get("search")
        if search is None or item.default is MISSING:
            continue
        found.append(MethodSetting(item.name, item.default, search.words))
    return tuple(found)


def with_settings(method: Method, text: str) -> Method:
    """`method` with the hyper-parameters that `text` changes: `name=value` with commas between."""
    name = method.own_name
    known = {setting.name: setting.default for setting in method_settings(method)}
    if not known:
        raise ConfigError(
            f"{name} has no settings of its own; what it trains with is set by dotted names, for all methods or for it "
            f"alone, as in {name}:features.epochs=60."
        )
    values: dict[str, Any] = {}
    for part in text.split(","):
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            raise ConfigError(
                f"{name} has no setting {part!r}; write NAME=VALUE with a name among {', '.join(known)}, as in "
                f"{name}:{next(iter(known))}={written(next(iter(known.values())))}."
            )
        if key in values:
            raise ConfigError(f"{key} is set more than once for {name}; give it one value.")
        values[key] = _parsed(name, key, value, known[key])
    return replace(method, **values)  # type: ignore[type-var]


def written(value: Any) -> str:
    """A value of a method's own setting as people type it."""
    return _BETWEEN_VALUES.join(map(str, value)) if isinstance(value, tuple) else str(value)


def _parsed(name: str, key: str, text: str, default: Any) -> Any:
    kind = type(default[0] if isinstance(default, tuple) else default)
    try:
        if isinstance(default, tuple):
            return tuple(kind(part) for part in text.split(_BETWEEN_VALUES))
        return kind(text)
    except ValueError:
        what = {int: "a whole number", float: "a number"}.get(kind, kind.__name__)
        raise ConfigError(f"{key} of {name} is {what}, such as {written(default)}; got {shown(text)}.") from None


@dataclass(frozen=True)
class ConfiguredMethod(Method):
    """`method`, with some of the settings that are common to all methods changed for it alone, as `name=value`.

    It runs as `method` would in a benchmark whose settings say the same, and so shares every stage that does not depend
    on what is changed. It may begin with the training of its authors, which all that is asked for changes.
    """

    method: Method
    changes: tuple[str, ...]
    training: Training | None = None

    def __post_init__(self) -> None:
        names = [_change(change)[0] for change in self.changes]
        for name in names:
            if names.count(name) > 1:
                raise ConfigError(f"{name} is set more than once for {self.method.info.name}; give it one value.")
            if name in _DECIDED_FOR_ALL:
                raise ConfigError(f"{name} cannot be set for {self.method.info.name} alone; set it for all methods.")
        change_settings(HomefoldConfig(), self._values(), names_only=True)

    def _values(self) -> dict[str, Any]:
        return dict(map(_change, self.changes))

    @property
    def info(self) -> MethodInfo:
        info = self.method.info
        return replace(info, title=f"{info.title} ({', '.join(self.changes)})") if self.changes else info

    def starting(self, config: HomefoldConfig) -> HomefoldConfig:
        config = self.method.starting(config)
        return self.training.applied(config) if self.training else config

    def configure(self, config: HomefoldConfig, preset: str) -> HomefoldConfig:
        values = self._values()
        config = self.method.configure(change_settings(config, values), preset)
        if not config.style.blocks and any(name.startswith("style.") for name in values.keys() - {"style.blocks"}):
            raise ConfigError(
                f"{self.method.info.name} leaves styles as they are, and {self.changes[0]} would decide nothing; add "
                f"style.blocks=early."
            )
        return config

    @property
    def tunables(self) -> tuple[str, ...]:
        return self.method.tunables

    def without_signal(self, sources: int, shots: int) -> str:
        return self.method.without_signal(sources, shots)

    def planned_stages(self, key: TaskKey) -> tuple[StageId, ...]:
        return self.method.planned_stages(key)

    def train(self, task: TrainingTask) -> TrainedMethod:
        return self.method.train(task)

    def settings(self) -> dict[str, Any]:
        return {**self.method.settings(), **({"changes": list(self.changes)} if self.changes else {})}

    def varied(self, **settings: Any) -> Method:
        return replace(self, method=self.method.varied(**settings))


def configured(method: Method, changes: tuple[str, ...], training: Training | None = None) -> Method:
    """`method` under its authors' training and these changes to the common settings; itself where there are none."""
    if not changes and training is None:
        return method
    return ConfiguredMethod(method, tuple(map(_with_current_name, changes)), training)


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


def _change(change: str) -> tuple[str, Any]:
    """Its name and value; slashes may stand between the numbers of a list, as in a method's own settings."""
    name, value = parse_setting(change)
    if isinstance(value, str) and _NUMBERS.fullmatch(value):
        return parse_setting(f"{name}=[{value.replace('/', ',')}]")
    return name, value
