"""What earlier versions wrote is still read, but for what its answers need and is gone."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest

from homefold.config import HomefoldConfig, list_presets, preset_config, saved_config
from homefold.errors import ConfigError, ModelFileError

SAVED = json.loads((Path(__file__).parents[1] / "store" / "saved" / "settings_0.1.0.json").read_text())
"""Every preset as version 0.1.0 wrote it, with all settings that were removed since."""


@dataclass(frozen=True)
class Search:
    """A search that lost settings and a choice."""

    steps: int = 50
    stop: Literal["elbow", "fixed"] = "fixed"


@dataclass(frozen=True)
class Style:
    """Styles that lost a choice."""

    blocks: tuple[str, ...] = ()
    manifold: Literal["mean", "domains"] = "mean"


@dataclass(frozen=True)
class Settings:
    """The parts in which the examples lie."""

    projection: Search = field(default_factory=Search)
    style: Style = field(default_factory=Style)


@pytest.mark.parametrize("name", list_presets())
def test_the_settings_of_every_preset_are_read_as_they_were(name):
    assert saved_config(HomefoldConfig, SAVED[name], "the model in m") == preset_config(name)


@pytest.mark.parametrize(
    ("projection", "style"),
    [
        ({"steps": 7, "tints": 0, "trust_below": None, "blend": 1, "prior": 0.0}, {}),
        ({"steps": 7, "patience": 3, "tolerance": 0.5, "temperature": 9.0, "component": "average"}, {}),
        ({"steps": 7}, {"manifold": "vae", "latent_dim": 3, "prior": 5.0}),
        ({"steps": 7}, {"manifold": "nearest", "blocks": []}),
    ],
)
def test_a_removed_setting_without_effect_is_ignored(projection, style):
    found = saved_config(Settings, {"projection": projection, "style": style}, "the model in m")
    assert found == Settings(Search(steps=7))


@pytest.mark.parametrize(
    ("part", "values", "words"),
    [
        ("projection", {"tints": 2}, "the model in m answers with projection.tints at 2, which this version"),
        ("projection", {"trust_below": 1.5}, "projection.trust_below at 1.5"),
        ("projection", {"stop": "plateau"}, "projection.stop at 'plateau'"),
        ("style", {"manifold": "vae", "blocks": ["layer1"]}, "style.manifold at 'vae'"),
    ],
)
def test_a_removed_setting_that_answers_need_is_refused(part, values, words):
    with pytest.raises(ModelFileError, match=words):
        saved_config(Settings, {part: values}, "the model in m")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"projection": {"tinge": 0}}, "has no setting tinge"),
        ({"tints": 0}, "has no setting tints"),
        ({"projection": {"stop": "never"}}, "projection.stop must be one of elbow, fixed"),
        ({"projection": 3}, "must be an object of settings"),
    ],
)
def test_what_never_was_a_setting_is_still_named(values, words):
    with pytest.raises(ConfigError, match=words):
        saved_config(Settings, values, "the model in m")


def test_a_part_read_on_its_own_is_known_by_its_name():
    assert saved_config(Search, {"race": 0, "steps": 3}, "the projector in p", within="projection") == Search(steps=3)
    with pytest.raises(ModelFileError, match=r"the projector in p answers with projection\.race at 4"):
        saved_config(Search, {"race": 4}, "the projector in p", within="projection")
