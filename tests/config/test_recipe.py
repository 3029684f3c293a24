"""What the preset `auto` chooses for how many images, from which start, on which device."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from homefold.config import preset_config
from homefold.config.recipe import DataFacts, recipe


def chosen(**facts):
    preset, settings = recipe(DataFacts(**{"kinds": 21, "pretrained": True, "accelerated": True, **facts}))
    return preset_config(preset, settings)


@pytest.mark.parametrize(
    ("of_each", "epochs", "rate", "kept"),
    [(5, 300, 0.03, 0.6), (10, 300, 0.03, 0.6), (20, 300, 0.03, 0.3), (40, 100, 0.1, 0.3), (100, 60, 0.1, 0.4),
     (350, 30, 0.1, 0.2), (100_000, 30, 0.1, 0.2)],
)  # fmt: skip
def test_sizes_that_were_measured_get_the_recipe_that_won(of_each, epochs, rate, kept):
    features = chosen(images=21 * of_each).features
    assert (features.epochs, features.learning_rate, features.keep_pretrained) == (epochs, rate, kept)


def test_more_images_never_mean_more_epochs_nor_more_of_the_start_but_for_the_measured_exception():
    epochs = [chosen(images=21 * n).features.epochs for n in range(1, 400)]
    assert epochs == sorted(epochs, reverse=True)


def test_without_a_gpu_a_pretrained_backbone_is_frozen_and_many_images_are_smaller():
    few, many = chosen(images=900, accelerated=False), chosen(images=9000, accelerated=False)
    assert few.features.freeze == many.features.freeze == "backbone"
    assert (few.preprocessing.image_size, many.preprocessing.image_size) == (224, 128)
    few.require_consistent()


@pytest.mark.parametrize("accelerated", [True, False])
def test_a_tower_is_frozen_at_its_own_size_whatever_computes(accelerated):
    preset, settings = recipe(DataFacts(images=9000, kinds=21, pretrained=True, accelerated=accelerated, tower=True))
    name = "timm:vit_small_patch14_dinov2"
    config = preset_config(preset, {**settings, "features.backbone": name})
    config.require_consistent()
    assert (config.features.freeze, config.features.epochs, config.features.learning_rate) == ("backbone", 100, 0.03)
    assert config.features.backbone == name
    if find_spec("timm"):
        assert config.preprocessing.image_size == 518


@pytest.mark.parametrize(("images", "epochs"), [(60, 300), (1280, 100), (128_000, 30)])
def test_from_scratch_a_training_takes_a_thousand_steps_or_thirty_epochs(images, epochs):
    config = chosen(images=images, pretrained=False)
    assert config.features.backbone == "digits-bn"
    assert config.features.epochs == epochs


def test_every_choice_is_consistent_and_leaves_familiar_images_alone_where_they_would_lose():
    for images in (1, 50, 500, 5000, 50_000):
        for pretrained in (True, False):
            for accelerated in (True, False):
                config = chosen(images=images, pretrained=pretrained, accelerated=accelerated)
                config.require_consistent()
                assert config.look.leave_familiar == pretrained
