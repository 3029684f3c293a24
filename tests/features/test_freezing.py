"""A frozen backbone: what stays, what learns, what goes on after a kill, and what it leaves no room for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold, list_presets, preset_config
from homefold.config import HomefoldConfig, config_to_dict, replace_settings
from homefold.config.grammar import with_settings
from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, build_feature_net, train_features
from homefold.features.loss import pairwise_metric_loss
from homefold.runtime.progress import SilentReporter
from homefold.store.model_card import how_it_was_trained

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def frozen_config(quick_config) -> HomefoldConfig:
    return replace_settings(quick_config, {"features.freeze": "backbone"})


@pytest.fixture(scope="module")
def config(frozen_config) -> FeatureConfig:
    return replace(frozen_config.features, epochs=4)


def untrained(config: FeatureConfig, dataset):
    return build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)


def start(config: FeatureConfig, dataset, **settings):
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    return train_features(config, untrained(config, dataset), dataset, train, held_out, seed=0, device=CPU, **settings)


def same_bytes(left, right) -> bool:
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"runs": 2}, {"average_from": 0.5, "average_every": 2}])
def test_the_backbone_keeps_weights_and_statistics_while_the_head_learns(config, few_digits, settings):
    before = untrained(config, few_digits)
    trained = start(replace(config, epochs=8, **settings), few_digits)
    assert same_bytes(trained.net.backbone.state_dict(), before.backbone.state_dict())
    assert any("running_mean" in name for name in before.backbone.state_dict())
    assert not same_bytes(trained.net.head.state_dict(), before.head.state_dict())
    assert not any(module.training for module in trained.net.modules())
    losses = [entry["held_out_loss"] for entry in trained.report.history]
    assert trained.report.held_out_loss < 0.9 * losses[0]


def test_two_steps_are_those_written_out(config, few_digits):
    """Plain gradient descent by hand, on the features of a backbone in eval mode."""
    rate = 0.05
    plain = replace(
        config, epochs=2, batch_size=len(few_digits), momentum=0.0, weight_decay=0.0, schedule="constant",
        learning_rate=rate, cross_entropy_weight=0.0, select="last",
    )  # fmt: skip
    net = untrained(plain, few_digits).eval()
    images = torch.from_numpy(few_digits.images).permute(0, 3, 1, 2).float() / 255
    with torch.no_grad():
        pooled = net.pooled(images)
    losses = []
    for _ in range(2):
        loss = pairwise_metric_loss(net.head(pooled), torch.from_numpy(few_digits.labels), plain.temperature)
        losses.append(loss.item())
        values = list(net.head.parameters())
        for value, gradient in zip(values, torch.autograd.grad(loss, values), strict=True):
            value.data -= rate * gradient
    everything = np.arange(len(few_digits))
    found = train_features(plain, untrained(plain, few_digits), few_digits, everything, everything, seed=0, device=CPU)
    assert [entry["loss"] for entry in found.report.history] == pytest.approx(losses, rel=1e-5)
    for name, value in net.head.state_dict().items():
        torch.testing.assert_close(found.net.head.state_dict()[name], value, rtol=1e-4, atol=1e-6)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.slow
@pytest.mark.parametrize(("runs", "epoch"), [(1, 1), (1, 3), (2, 7)])
def test_a_killed_training_goes_on_to_the_same_bytes_without_another_pass(
    config, few_digits, tmp_path, monkeypatch, runs, epoch
):
    several = replace(config, runs=runs)
    whole = start(several, few_digits)
    checkpoint, seen = tmp_path / "features.safetensors", []

    def kill(figures):
        seen.append(figures)
        if len(seen) == epoch:
            raise Killed

    with pytest.raises(Killed):
        start(several, few_digits, checkpoint=checkpoint, on_epoch=kill)
    monkeypatch.setattr("homefold.features.training.backbone_features", None)
    resumed = start(several, few_digits, checkpoint=checkpoint)
    assert same_bytes(whole.net.state_dict(), resumed.net.state_dict())
    assert resumed.report == whole.report


@pytest.mark.parametrize(("before", "after"), [("none", "backbone"), ("backbone", "none")])
def test_a_checkpoint_of_another_kind_of_training_is_refused(config, few_digits, tmp_path, before, after):
    checkpoint = tmp_path / "features.safetensors"
    start(replace(config, epochs=1, freeze=before), few_digits, checkpoint=checkpoint)
    with pytest.raises(ConfigError, match=f"another freeze, and freeze is now {after}; go on with the settings"):
        start(replace(config, epochs=1, freeze=after), few_digits, checkpoint=checkpoint)


@pytest.mark.slow
def test_a_frozen_model_brings_styles_home_and_answers_the_same_after_loading(frozen_config, few_digits, tmp_path):
    styled = replace_settings(frozen_config, {"style.blocks": ("early",), "style.manifold": "domains"})
    model = Homefold(styled, device="cpu").fit(few_digits, holdout="street")
    street = few_digits.only("street")
    answers = model.predict(street)
    plain = model.predict(street, look=replace(styled.look, styles=False))
    assert not np.array_equal(answers.probabilities, plain.probabilities)
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    assert np.array_equal(loaded.predict(street).probabilities, answers.probabilities)
    assert model.score(few_digits.without("street")) > 0.5


class Listener(SilentReporter):
    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


def test_a_backbone_frozen_at_random_weights_is_told(config, few_digits):
    listener = Listener()
    start(replace(config, epochs=1), few_digits, reporter=listener)
    assert len(listener.messages) == 1
    assert "random weights, since features.weights is none" in listener.messages[0]


@pytest.mark.parametrize("preset", list_presets())
def test_freezing_alone_turns_off_what_a_preset_has_and_leaves_the_rest(preset):
    plain, frozen = preset_config(preset), preset_config(preset, {"features.freeze": "backbone"})
    frozen.require_consistent()
    assert frozen.features.augmentation.does_nothing
    assert frozen.features.mix_style_probability == 0
    assert frozen.look.views == min(plain.look.views, 6)
    room = {"augmentation": plain.features.augmentation, "mix_style_probability": plain.features.mix_style_probability}
    room |= {name: getattr(plain.features, name) for name in ("freeze", "adapter_rank", "keep_pretrained")}
    assert replace(frozen.features, **room) == plain.features
    assert replace(frozen, features=plain.features, look=plain.look) == plain
    assert with_settings(plain, "features.freeze=backbone") == frozen
    assert replace_settings(plain, {"features.freeze": plain.features.freeze}) == plain


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features.mix_style_probability": 0.5}, r"; set features\.mix_style_probability=0\.$"),
        (
            {"features.augmentation.grey_probability": 0.3, "features.augmentation.crop_min_area": 0.7},
            r"; set features\.augmentation\.crop_min_area=1, features\.augmentation\.grey_probability=0\.$",
        ),
        ({"features.head": "none", "features.feature_dim": 0}, r"features\.head=none has none; set features\.head to"),
        ({"look.views": 8}, r"views must be 1 to 6 where nothing is mirrored"),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_what_is_asked_for_beside_freezing_is_refused_with_what_to_set(settings, words, first):
    freeze = {"features.freeze": "backbone"}
    config = replace_settings(preset_config("default"), {**freeze, **settings} if first else {**settings, **freeze})
    with pytest.raises(ConfigError, match=words):
        config.require_consistent()


def test_a_training_that_could_not_follow_its_settings_does_not_begin(config, few_digits):
    with pytest.raises(ConfigError, match=r"set features\.augmentation\.crop_min_area=1, "):
        start(FeatureConfig(freeze="backbone", backbone="digits-bn", weights="none"), few_digits)


def test_it_is_told_with_the_training(frozen_config):
    told = how_it_was_trained(config_to_dict(frozen_config)["features"])
    assert told == "L_A (τ 0.1) 1, cross entropy 1, backbone frozen"
