"""The flags of the projection for commands that use a finished model, whose own settings they change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Literal

import tyro

from homefold.projection import ProjectionConfig, projection_preset

__all__ = ["ProjectionFlags", "ProjectionPreset", "chosen_projection"]

ProjectionPreset = Annotated[
    Literal["default", "paper", "authors", "restarts"] | None,
    tyro.conf.DisallowNone,
    tyro.conf.arg(
        help="Named settings of the projection: default (one encoder start), paper (Algorithm 1 to the letter), "
        "authors (the steps of the released scripts) or restarts (eight random starts); else the model's own.",
        help_behavior_hint="(default: the model's own)",
    ),
]

_PREFIX = "--projection."


@dataclass(frozen=True)
class ProjectionFlags(ProjectionConfig):
    """What the projection flags say, before the model's own settings are known and the whole can be checked."""

    def __post_init__(self) -> None:
        """Check nothing yet."""


def chosen_projection(
    own: ProjectionConfig, preset: str | None, flags: ProjectionFlags, arguments: Sequence[str]
) -> ProjectionConfig:
    """The model's own settings, or the preset's, with those changed whose flags stand among the arguments.

    Args:
        own: the settings that the model was saved with.
        preset: takes their place if it is given.
        flags: the values that were parsed.
        arguments: the words they were parsed from, which tell a flag that was given from one left at its default.
    """
    base = own if preset is None else projection_preset(preset)
    return replace(base, **{name: getattr(flags, name) for name in _given(arguments)})


def _given(arguments: Sequence[str]) -> set[str]:
    typed = {word.split("=")[0].removeprefix(_PREFIX) for word in arguments if word.startswith(_PREFIX)}
    plain = {name.replace("-", "_") for name in typed}
    return {field.name for field in fields(ProjectionConfig) if {field.name, f"no_{field.name}"} & plain}
