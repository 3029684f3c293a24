"""The core that training-time methods share: by default it is Deep All, and it resumes and adapts like it."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np
import pytest
import torch

from homefold.config import preset_config, replace_settings
from homefold.errors import ConfigError, FeatureCollapseError
from homefold.features import build_backbone
from homefold.features.level_maps import features_from_map, level_maps
from homefold.features.network import FeatureNet
from homefold.methods import (
    Batch,
    ImageSet,
    Learner,
    LearnerMethod,
    MethodInfo,
    ParameterGroup,
    find_method,
    reverse_gradient,
    tunable,
)
from homefold.methods.training.jigen import Jigen
from homefold.runtime.seeding import isolated_seed


@dataclass(frozen=True)
class Plain(LearnerMethod):
    """Deep All as a learner."""

    about = MethodInfo("plain", "Plain", 2020, "made up", "Cross entropy.")
    weight: float = tunable(1.0, 0.1, 10, log=True)

    def learner(self, net, task):
        return Learner(net, task)


def same_bytes(left, right):
    return left.keys() == right.keys() and all(torch.equal(left[name], right[name]) for name in left)


@pytest.mark.slow
def test_the_default_learner_is_deep_all_to_the_byte(task_for, unseen):
    plain, deep_all = Plain(), find_method("deep-all")
    learned, known = plain.train(task_for(plain)), deep_all.train(task_for(deep_all))
    assert same_bytes(learned.learner.net.state_dict(), known.classifier_network().features.state_dict())
    assert same_bytes(learned.layer.state_dict(), known.layer.state_dict())
    assert learned.facts() == known.facts()
    images = ImageSet(unseen.images, "unseen")
    answers = learned.answer(images).predictions.probabilities
    assert np.array_equal(answers, known.answer(images).predictions.probabilities)


def test_a_trained_learner_is_found_again_and_other_settings_are_not(task_for):
    task = task_for(Plain(), features__epochs=1)
    first = Plain().train(task).stages
    assert first[0].made_now
    assert not Plain().train(task).stages[0].made_now
    assert Plain().planned_stages(task.key) == (first[0].id,)
    assert Plain(weight=2.0).planned_stages(task.key) != (first[0].id,)


@pytest.mark.slow
def test_few_shot_adaptation_goes_on_with_the_trained_learner(task_for, unseen):
    few = unseen.subset(range(0, 72, 3))
    task = task_for(Plain(), adapt=few)
    before, after = Plain().train(task).stages
    assert Plain().planned_stages(task.key) == (before.id, after.id)
    images = torch.from_numpy(few.images).permute(0, 3, 1, 2).float() / 255
    losses = []
    for stage in (before, after):
        learner = Plain().train(task).learner
        learner.load_state_dict(stage.state["learner"])
        losses.append(learner.cross_entropy(learner.logits(images), torch.from_numpy(few.labels)).item())
    assert losses[1] < losses[0]


@dataclass(frozen=True)
class Counting(LearnerMethod):
    """Keeps a buffer that every step and every epoch changes, and draws a random number in each step."""

    about = MethodInfo("counting", "Counting", 2020, "made up", "Counts.")

    def learner(self, net, task):
        return _CountingLearner(net, task)


class _CountingLearner(Learner):
    def __init__(self, net, task):
        super().__init__(net, task)
        self.register_buffer("seen", torch.zeros(task.num_images))
        self.register_buffer("drawn", torch.zeros(()))
        self.own = torch.nn.Linear(2, 2)

    def epoch_start(self, epoch, images):
        assert len(images) == self.task.num_images
        assert images.batch(torch.tensor([0, 1])).shape == (2, 3, 16, 16)
        self.drawn += 100 * epoch

    def loss(self, batch):
        self.seen[batch.rows] += 1
        self.drawn += torch.rand(())
        return super().loss(batch) + 0.01 * self.own.weight.square().sum()

    def parameter_groups(self):
        own = list(self.own.parameters())
        ids = {id(parameter) for parameter in own}
        rest = [parameter for parameter in self.parameters() if id(parameter) not in ids]
        return [ParameterGroup(rest), ParameterGroup(own, rate=0.0)]


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_bytes_with_its_own_buffers(task_for, after_a_kill):
    method = Counting()
    whole = method.train(task_for(method, features__select="last")).stages[0].state["learner"]
    batches = int(whole["seen"].sum()) // 32
    assert int(whole["seen"].max()) <= 3
    assert batches == 3 * (len(whole["seen"]) // 32)
    assert 300 < float(whole["drawn"]) < 300 + batches
    task = task_for(method, features__select="last", features__checkpoint_seconds=0.0)
    assert same_bytes(whole, after_a_kill(method, task).stages[0].state["learner"])


def test_a_group_learns_at_its_own_rate(task_for):
    method = Counting()
    learner = method.train(task_for(method, features__epochs=1)).learner
    with isolated_seed(0, "learner"):
        start = torch.nn.Linear(2, 2)
    assert torch.equal(learner.own.weight, start.weight), "at rate zero it stays where the seed put it"


@dataclass(frozen=True)
class Doubled(LearnerMethod):
    """Predicts from features of its own."""

    about = MethodInfo("doubled", "Doubled", 2020, "made up", "Doubles z.")

    def learner(self, net, task):
        return _DoubledLearner(net, task)


class _DoubledLearner(Learner):
    def features(self, images):
        return 2 * self.net(images)


@dataclass(frozen=True)
class Flattened(LearnerMethod):
    """Gives every image the same feature."""

    about = MethodInfo("flattened", "Flattened", 2020, "made up", "All features are one.")

    def learner(self, net, task):
        return _FlattenedLearner(net, task)


class _FlattenedLearner(Learner):
    def features(self, images):
        return 0 * self.net(images) + 1


def test_features_that_became_one_are_told_without_a_word_on_another_loss(task_for):
    with pytest.raises(FeatureCollapseError, match="after epoch 1 all held-out images point the same way") as told:
        Flattened().train(task_for(Flattened()))
    assert str(told.value).endswith("weights and rates of the method's own (homefold methods NAME lists them).")
    assert "L_A" not in str(told.value)


@pytest.mark.slow
def test_the_classifier_network_is_a_copy_that_answers_the_same(task_for, unseen):
    images = torch.from_numpy(unseen.images).permute(0, 3, 1, 2).float() / 255
    kinds = {}
    for method in (Plain(), Doubled(), find_method("deep-all")):
        trained = method.train(task_for(method, features__epochs=1))
        network = trained.classifier_network()
        kinds[method.info.name] = type(network.features)
        before = trained.answer(ImageSet(unseen.images, "unseen")).predictions.probabilities
        assert np.allclose(torch.softmax(network(images), dim=1).numpy(), before, atol=1e-5)
        assert not any(parameter.requires_grad for parameter in network.parameters())
        for parameter in network.parameters():
            parameter.add_(1)
        again = trained.classifier_network()
        assert np.allclose(torch.softmax(again(images), dim=1).numpy(), before, atol=1e-5)
    assert kinds["plain"] == kinds["deep-all"] == FeatureNet != kinds["doubled"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("backbone", "size", "shapes"),
    [
        ("digits", 32, [(64, 16, 16), (64, 8, 8), (64, 4, 4), (64, 2, 2)]),
        ("digits-bn", 32, [(64, 16, 16), (64, 8, 8), (64, 4, 4), (64, 2, 2)]),
        ("wrn-16-4", 32, [(64, 32, 32), (128, 16, 16), (256, 8, 8)]),
        ("resnet18", 64, [(64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]),
        ("alexnet", 64, [(64, 7, 7), (192, 3, 3), (256, 1, 1)]),
        ("timm:resnet18", 64, [(64, 16, 16), (128, 8, 8), (256, 4, 4), (512, 2, 2)]),
    ],
)
def test_the_stages_of_a_backbone_add_up_to_it(backbone, size, shapes):
    torch.manual_seed(0)
    net = FeatureNet(build_backbone(backbone), (size, size), head="linear", feature_dim=16).eval()
    names = list(net.state_dict())
    images = torch.rand(2, 3, size, size)
    with torch.no_grad():
        maps = level_maps(net, images)
        assert [tuple(item.shape[1:]) for item in maps] == shapes
        assert torch.equal(features_from_map(net, maps[-1]), net(images))
    assert list(net.state_dict()) == names


def test_a_network_that_shows_no_maps_is_refused_with_a_sentence():
    net = FeatureNet(torch.nn.Flatten(), (4, 4), head="linear", feature_dim=4)
    with pytest.raises(ConfigError, match="a Flatten does not show them; choose a resnet"):
        level_maps(net, torch.zeros(1, 3, 4, 4))


def test_a_reversed_gradient_is_the_other_way_round():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    y = reverse_gradient(x, 0.5)
    assert torch.equal(y, x)
    (3 * y).sum().backward()
    assert x.grad.tolist() == [-1.5, -1.5]


def test_a_setting_that_makes_no_sense_is_refused():
    with pytest.raises(ConfigError, match=r"weight of plain must be zero or a positive number; got -1\.0"):
        Plain(weight=-1.0)
    for value in (float("nan"), float("inf"), "much"):
        with pytest.raises(ConfigError, match=r"weight of plain must be a finite number; got"):
            Plain(weight=value)
    with pytest.raises(ConfigError, match=r"ordered of jigen must be a number from 0 to 1; got 1\.5"):
        Jigen(ordered=1.5)


def test_search_ranges_stand_beside_the_defaults():
    (weight,) = fields(Plain)
    search = weight.metadata["search"]
    assert (search.low, search.high, search.log) == (0.1, 10, True)


def test_progress_is_the_share_of_steps_that_are_over(batch: Batch):
    assert batch.progress == 0.5
    assert len(batch) == 72


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("mix_style_probability", 0.5),
        ("runs", 2),
        ("freeze", "backbone"),
    ],
)
def test_settings_that_only_stage_1_follows_are_refused_before_training(task_for, name, value):
    config = replace_settings(Plain().starting(preset_config("small")), {f"features.{name}": value})
    refusal = rf"^plain does not follow features\.{name}, .* as in vae:features\.{name}=VALUE\.$"
    with pytest.raises(ConfigError, match=refusal):
        Plain().configure(config, "quick")
    # Not configured by the method: what trains it looks too.
    task = task_for(Plain())
    with pytest.raises(ConfigError, match=refusal):
        Plain().train(replace(task, key=replace(task.key, config=config)))
