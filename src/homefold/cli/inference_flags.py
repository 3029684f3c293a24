"""The flags of look and search for commands that use a finished model, whose own settings they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, Literal, TypeVar

import tyro

from homefold.config import LookConfig, SearchConfig, look_preset, search_preset
from homefold.config.migration import current_word

__all__ = ["LookFlags", "ProjectionPreset", "SearchFlags", "chosen_look", "chosen_search"]

ProjectionPreset = Annotated[
    Literal["default", "paper", "authors", "restarts"] | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        help="Named settings of look and search: default (one encoder start), paper (Algorithm 1 to the letter), "
        "authors (the steps of the released scripts) or restarts (eight random starts); else the model's own.",
        help_behavior_hint="(default: the model's own)",
    ),
]

C = TypeVar("C", LookConfig, SearchConfig)


@dataclass(frozen=True)
class LookFlags(LookConfig):
    """What the flags of look say, before the model's own settings are known and the whole can be checked."""

    def __post_init__(self) -> None:
        """Check nothing yet."""


@dataclass(frozen=True)
class SearchFlags(SearchConfig):
    """What the flags of search say, before the model's own settings are known and the whole can be checked."""

    def __post_init__(self) -> None:
        """Check nothing yet."""


def chosen_look(own: LookConfig, preset: str | None, flags: LookFlags, arguments: Sequence[str]) -> LookConfig:
    """The model's own look, or the preset's, with those settings changed whose flags stand among the arguments.

    Args:
        own: the settings that the model was saved with.
        preset: takes their place if it is given.
        flags: the values that were parsed.
        arguments: the words they were parsed from, which tell a flag that was given from one left at its default.
    """
    return _changed(own if preset is None else look_preset(preset), flags, "--look.", arguments)


def chosen_search(own: SearchConfig, preset: str | None, flags: SearchFlags, arguments: Sequence[str]) -> SearchConfig:
    """The model's own search, or the preset's, changed as `chosen_look` changes the look."""
    return _changed(own if preset is None else search_preset(preset), flags, "--search.", arguments)


def _changed(base: C, flags: C, prefix: str, arguments: Sequence[str]) -> C:
    words = [current_word(word).partition("=")[0] for word in arguments]
    typed = {word.removeprefix(prefix).replace("-", "_") for word in words if word.startswith(prefix)}
    names = [field.name for field in fields(base) if {field.name, f"no_{field.name}"} & typed]
    given: dict[str, Any] = {name: getattr(flags, name) for name in names}
    return replace(base, **given)
