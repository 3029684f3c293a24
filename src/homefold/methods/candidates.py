"""Settings among which a selection rule chooses: given to a method as text, or drawn from the ranges it declares."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass, fields, replace
from typing import Any, get_type_hints

import numpy as np

from homefold.config import HomefoldConfig
from homefold.config.grammar import is_common
from homefold.config.ranges import SearchRange
from homefold.errors import ConfigError
from homefold.methods.base import Method, TestTimeMethod
from homefold.methods.settings import ConfiguredMethod, configured, with_settings, written
from homefold.runtime.seeding import derive_seed

__all__ = ["TunableSetting", "drawn_settings", "tunable_settings", "with_candidate"]


@dataclass(frozen=True)
class TunableSetting:
    """A setting that a random search draws for a method.

    Args:
        name: as people type it in a candidate.
        stream: of the random numbers; common settings share theirs among methods, so that these share trainings.
        range: where values are drawn from.
        value: that it has otherwise.
    """

    name: str
    stream: str
    range: SearchRange
    value: Any


def tunable_settings(method: Method, config: HomefoldConfig) -> tuple[TunableSetting, ...]:
    """What a random search draws for `method`: settings of its own, of what it wraps, and common ones in `config`.

    >>> from homefold.config import preset_config
    >>> from homefold.methods import find_method
    >>> [setting.name for setting in tunable_settings(find_method("t3a+coral"), preset_config("small"))][:4]
    ['supports', 'batch_size', 'coral:weight', 'features.learning_rate']
    """
    return (*_own(method, ""), *(_common(config, name) for name in method.tunables))


def _own(method: Method, before: str) -> Iterator[TunableSetting]:
    if isinstance(method, ConfiguredMethod):
        yield from _own(method.method, before)
        return
    for item in fields(method):  # type: ignore[arg-type]
        found = item.metadata.get("search")
        if found is not None and found.drawn:
            stream = f"{method.own_name}:{item.name}"
            yield TunableSetting(before + item.name, stream, found, getattr(method, item.name))
    if isinstance(method, TestTimeMethod):
        yield from _own(method.base, f"{method.base.own_name}:")


def _common(config: HomefoldConfig, name: str) -> TunableSetting:
    part, _, last = name.partition(".")
    values = getattr(config, part)
    declared = get_type_hints(type(values), include_extras=True)[last].__metadata__
    found = next(item for item in declared if isinstance(item, SearchRange))
    return TunableSetting(name, name, found, getattr(values, last))


def drawn_settings(method: Method, config: HomefoldConfig, seed: int, number: int, kept: Container[str] = ()) -> str:
    """Candidate `number` of a random search as people type it, the same on all machines; number 0 draws nothing.

    Each value depends on the seed, the number and the setting's name alone: a longer search begins with the shorter
    one, and methods that share a setting try the same values of it.

    Args:
        method: as it runs otherwise.
        config: its settings.
        seed: of the search.
        kept: names of settings that stay as they are.
    """
    if number == 0:
        return ""
    words = []
    for setting in tunable_settings(method, config):
        if setting.name not in kept:
            u = float(np.random.default_rng(derive_seed(seed, "search", setting.stream, number)).random())
            words.append(f"{setting.name}={written(setting.range.draw(u, setting.value))}")
    return " ".join(words)


def with_candidate(method: Method, text: str) -> Method:
    """`method` with settings `NAME=VALUE …`: its own by name, common ones by dotted name, and those of what it wraps
    as `METHOD:NAME=VALUE`. They win over what follows the method's name.

    >>> from homefold.methods import find_method
    >>> with_candidate(find_method("memo+jigen"), "copies=16 jigen:weight=0.3").base.weight
    0.3
    """
    common, own = [], dict[str, list[str]]()
    for word in text.split():
        name = word.partition("=")[0]
        part, colon, _ = name.rpartition(":")
        if colon:
            own.setdefault(part, []).append(word[len(part) + 1 :])
        elif is_common(word):
            common.append(word)
        else:
            own.setdefault(method.own_name, []).append(word)
    names = {word.partition("=")[0] for word in common}
    changed = _with_own(method, own, names)
    if own:
        raise ConfigError(f"the candidate {text!r} sets {next(iter(own))}, which is no part of {method.info.name}.")
    if isinstance(changed, ConfiguredMethod):
        return replace(changed, changes=(*changed.changes, *common))
    return configured(changed, tuple(common))


def _with_own(method: Method, own: dict[str, list[str]], common: Container[str]) -> Method:
    """With what `own` says of it and of what it wraps, which is taken out of there, and without changes of `common`."""
    if isinstance(method, ConfiguredMethod):
        left = tuple(change for change in method.changes if change.partition("=")[0] not in common)
        return replace(method, method=_with_own(method.method, own, common), changes=left)
    if isinstance(method, TestTimeMethod):
        method = replace(method, base=_with_own(method.base, own, common))
    mine = own.pop(method.own_name, None)
    return with_settings(method, ",".join(mine)) if mine else method
