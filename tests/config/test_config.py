"""A configuration survives JSON, and names what does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homefold import Homefold
from homefold.config import HomefoldConfig, config_from_dict, config_to_dict, preset_config
from homefold.errors import ConfigError
from homefold.store.files import (
    plain_json,
)


class TestConfig:
    @pytest.mark.parametrize("name", ["default", "thorough", "small", "small-thorough", "paper"])
    def test_presets_survive_json(self, name):
        config = preset_config(name)
        assert config_from_dict(HomefoldConfig, plain_json(config_to_dict(config))) == config

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"seed": "x"}, "seed must be a whole number"),
            ({"colour": 1}, "there is no setting 'colour'"),
            ({"features": 3}, "must be an object of settings"),
            ({"classifier": {"kind": "deep"}}, "kind must be one of linear, hidden"),
            ({"features": {"milestones": 3}}, "milestones must be a list"),
        ],
    )
    def test_what_does_not_fit_is_named(self, change, words):
        with pytest.raises(ConfigError, match=words):
            config_from_dict(HomefoldConfig, change)


def test_single_settings_of_a_preset_are_changed_by_dotted_name(recwarn):
    changed = preset_config("small", {"features.epochs": 5, "seed": 3})
    assert (changed.features.epochs, changed.seed) == (5, 3)
    assert replace(changed, seed=0, features=replace(changed.features, epochs=30)) == preset_config("small")
    assert preset_config("default", {"features.backbone": "alexnet"}).features.learning_rate == 0.003
    assert not recwarn.list


def test_settings_that_fit_together_only_are_changed_together():
    changes = {"search.encoder_start": False, "search.random_starts": 2}
    assert preset_config("small", changes).search.starts == 2
    with pytest.raises(ConfigError, match="the search needs a start"):
        preset_config("small", {"search.encoder_start": False})


def test_settings_as_keywords_still_work_with_a_warning():
    with pytest.warns(DeprecationWarning, match=r'dotted names: \{"features\.epochs": …, "seed": …\}'):
        assert preset_config("small", features__epochs=5, seed=3) == preset_config(
            "small", {"features.epochs": 5, "seed": 3}
        )


def test_a_preset_beside_a_config_is_refused():
    with pytest.raises(ConfigError, match="a config or a preset, not both"):
        Homefold(preset_config("small"), preset="small", device="cpu")
    assert Homefold(device="cpu").config == preset_config("default")


@pytest.mark.slow
def test_fit_leaves_the_settings_of_the_estimator_as_they_were(fitted, quick_config):
    assert fitted.config is quick_config
