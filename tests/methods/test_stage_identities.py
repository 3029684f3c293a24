"""Two trainings are one stage exactly where no setting that decides their outcome differs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from homefold.config import preset_config
from homefold.stages.features import features_id
from homefold.stages.manifold import manifold_id
from homefold.stages.task import TaskKey


def key(adapt: str = "", **settings: object) -> TaskKey:
    return TaskKey("source", preset_config("small", **settings), adapt)


@pytest.mark.parametrize(
    ("switch", "changed"),
    [
        ({"mix_style_probability": 0.5}, {"mix_style_alpha": 0.3}),
        ({"mix_style_probability": 0.5}, {"mix_style_layers": ("block1",)}),
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
