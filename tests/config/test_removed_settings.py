"""What earlier versions wrote is still read, but for what its answers need and is gone."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path

import pytest

from homefold.config import (
    HomefoldConfig,
    LookConfig,
    SearchConfig,
    list_presets,
    preset_config,
    saved_config,
    with_settings,
)
from homefold.config.migration import RENAMED, current_word
from homefold.errors import ConfigError, ModelFileError
from homefold.methods import find_method

SAVED = json.loads((Path(__file__).parents[1] / "store" / "saved" / "settings_0.1.0.json").read_text())
"""Every preset as version 0.1.0 wrote it, with all settings that were removed since."""


@pytest.mark.parametrize("name", [name for name in list_presets() if name in SAVED])
def test_the_settings_of_every_preset_are_read_as_they_were(name):
    # `thorough` has kept a fifth of the pretrained weights since.
    then = {"features.keep_pretrained": 0.0} if name == "thorough" else {}
    assert saved_config(HomefoldConfig, SAVED[name], "the model in m") == preset_config(name, then)


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
    found = saved_config(HomefoldConfig, {"projection": projection, "style": style}, "the model in m")
    assert found == HomefoldConfig(search=SearchConfig(steps=7))


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
        saved_config(HomefoldConfig, {part: values}, "the model in m")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"projection": {"tinge": 0}}, "there is no setting 'search.tinge'"),
        ({"tints": 0}, "there is no setting 'tints'"),
        ({"projection": {"stop": "never"}}, "search.stop must be one of elbow, fixed"),
        ({"style": 3}, "must be an object of settings"),
    ],
)
def test_what_never_was_a_setting_is_still_named(values, words):
    with pytest.raises(ConfigError, match=words):
        saved_config(HomefoldConfig, values, "the model in m")


def test_a_setting_of_an_earlier_name_in_a_file_is_read_silently(recwarn):
    values = {"seed": 3, "projection": {"views": 4, "tints": 0, "stop": "elbow", "steps": 60}}
    found = saved_config(HomefoldConfig, values, "the model in m")
    assert (found.seed, found.look.views, found.search.stop, found.search.steps) == (3, 4, "elbow", 60)
    assert not recwarn.list
    with pytest.raises(ModelFileError, match=r"projection\.tints at 2"):
        saved_config(HomefoldConfig, {"projection": {"tints": 2}}, "the model in m")


def test_a_setting_of_an_earlier_name_that_a_person_writes_is_renamed_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r"projection\.steps is called search\.steps now"):
        assert preset_config("small", projection__steps=7) == preset_config("small", search__steps=7)
    with pytest.warns(DeprecationWarning, match=r"projection\.views is called look\.views now"):
        assert with_settings(preset_config("small"), "projection.views=3").look.views == 3
    with pytest.warns(DeprecationWarning, match="search"):
        assert find_method("vae:projection.steps=9") == find_method("vae:search.steps=9")


def test_every_setting_of_the_projection_has_a_name_now():
    now = {f"look.{item.name}" for item in fields(LookConfig)} | {
        f"search.{item.name}" for item in fields(SearchConfig)
    }
    newer = {"look.leave_familiar"}  # never had the older name
    assert set(RENAMED.values()) == now - newer


@pytest.mark.parametrize(
    ("word", "now"),
    [
        ("--projection.random_starts=2", "--search.random_starts=2"),
        ("--projection.views", "--look.views"),
        ("--projection.no-encoder-start", "--search.no-encoder-start"),
        ("projection.textures=4,style.blocks=[]", "look.textures=4,style.blocks=[]"),
        ("tent:batch_size=8+vae:seed=1,projection.rate=1", "tent:batch_size=8+vae:seed=1,search.rate=1"),
        ("photos/projection.steps=9", "photos/projection.steps=9"),
        ("--projection-preset", "--projection-preset"),
        ("--projection.race", "--projection.race"),
    ],
)
def test_words_of_a_command_line_are_renamed(word, now):
    assert current_word(word) == now
