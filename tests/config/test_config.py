"""A configuration survives JSON, and names what does not fit."""

from __future__ import annotations

import pytest

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
            ({"colour": 1}, "has no setting colour"),
            ({"features": 3}, "must be an object of settings"),
            ({"classifier": {"kind": "deep"}}, "kind must be one of linear, hidden"),
            ({"features": {"milestones": 3}}, "milestones must be a list"),
        ],
    )
    def test_what_does_not_fit_is_named(self, change, words):
        with pytest.raises(ConfigError, match=words):
            config_from_dict(HomefoldConfig, change)
