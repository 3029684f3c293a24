"""Two trainings are one stage exactly where no setting that decides their outcome differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homefold.config import preset_config
from homefold.methods.base import TaskKey
from homefold.methods.feature_stage import features_id
from homefold.methods.home_stages import _settings, classifier_id, manifold_id

TRAINED_ON_RECONSTRUCTIONS = {"manifold__kind": "gan", "classifier__train_on": "both"}


def key(adapt: str = "", **settings: object) -> TaskKey:
    return TaskKey("source", preset_config("small", **settings), adapt)


@pytest.mark.parametrize(
    "settings",
    [
        {"projection__views": 4, "projection__mirror": False, "projection__textures": 2, "projection__tints": 1},
        {"projection__trust_below": 1.0, "projection__blend": 0.5},
        {"projection__engine": "batched", "projection__precision": "highest", "projection__tile": 64},
    ],
)
def test_how_ends_of_searches_become_answers_does_not_train_the_classifier_again(settings):
    plain = classifier_id(key(**TRAINED_ON_RECONSTRUCTIONS))
    assert classifier_id(key(**TRAINED_ON_RECONSTRUCTIONS, **settings)) == plain


def test_settings_that_came_later_and_are_not_used_are_no_part_of_what_a_stage_is_found_by():
    projection = preset_config("small").projection
    assert projection.tints == 0
    assert "tints" not in _settings(projection)
    assert _settings(replace(projection, tints=2))["tints"] == 2


def test_where_searches_end_decides_the_classifier_that_is_trained_on_their_ends():
    plain = classifier_id(key(**TRAINED_ON_RECONSTRUCTIONS))
    assert classifier_id(key(**TRAINED_ON_RECONSTRUCTIONS, projection__steps=9)) != plain
    assert classifier_id(key(**TRAINED_ON_RECONSTRUCTIONS, projection__prior=0.1)) != plain


@pytest.mark.parametrize(
    ("switch", "changed"),
    [
        ({"mix_style_probability": 0.5}, {"mix_style_alpha": 0.3}),
        ({"mix_style_probability": 0.5}, {"mix_style_layers": ("block1",)}),
        ({"style_noise_probability": 0.5}, {"style_noise_layers": ("block1",)}),
        ({"agreement_weight": 1.0}, {"agreement_temperature": 2.0}),
    ],
)
def test_how_a_thing_is_done_decides_the_features_only_where_it_is_done(switch, changed):
    switch, changed = ({f"features__{name}": value for name, value in part.items()} for part in (switch, changed))
    assert features_id(key(**changed)) == features_id(key())
    assert features_id(key(**switch)) != features_id(key())
    assert features_id(key(**switch, **changed)) != features_id(key(**switch))
    assert features_id(key("few", **changed)) == features_id(key("few"))


@pytest.mark.parametrize("adapt", ["", "few"])
@pytest.mark.parametrize("change", [{"latent_dim": 8}, {"epochs": 7}, {"bank_size": 100}, {"optimizer": "sgd"}])
def test_what_only_other_manifolds_follow_decides_nothing_about_nearest_neighbours(change, adapt):
    def changed(kind: str) -> TaskKey:
        found = key(adapt, manifold__kind=kind)
        return replace(found, config=replace(found.config, manifold=replace(found.config.manifold, **change)))

    assert manifold_id(changed("nearest")) == manifold_id(key(adapt, manifold__kind="nearest"))
    assert manifold_id(changed("vae")) != manifold_id(key(adapt))
