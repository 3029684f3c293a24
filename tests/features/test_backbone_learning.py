"""What keeps pretrained features alive: rates by block, frozen blocks and statistics, the pull to the start."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold.data.augmentation import augmentation_preset
from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, build_backbone, build_feature_net, train_features
from homefold.features.backbone_learning import backbone_groups, frozen_first_blocks
from homefold.features.blocks import backbone_blocks
from homefold.features.loss import pairwise_metric_loss
from homefold.features.starting_point import StartingPoint

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def config(quick_config) -> FeatureConfig:
    return replace(quick_config.features, epochs=2, select="last")


def start(config: FeatureConfig, dataset, **settings):
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    return train_features(config, net, dataset, train, held_out, seed=0, device=CPU, **settings)


def beginning(config: FeatureConfig, dataset) -> dict[str, torch.Tensor]:
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    return net.state_dict()


def same_bytes(left, right) -> bool:
    return all(torch.equal(left[name], right[name]) for name in left)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


def stopped_and_gone_on(config: FeatureConfig, dataset, checkpoint):
    def kill(figures):
        if figures["epoch"] == 2:
            raise Killed

    with pytest.raises(Killed):
        start(config, dataset, checkpoint=checkpoint, on_epoch=kill)
    return start(config, dataset, checkpoint=checkpoint)


def test_each_block_learns_slower_than_the_next():
    config = FeatureConfig(backbone_rate=0.1, layer_decay=0.5)
    backbone = build_backbone("resnet18")
    groups = backbone_groups(config, backbone)
    assert [group.rate for group in groups] == pytest.approx([0.1 * 0.5**k for k in (4, 3, 2, 1, 0)])
    sizes = [sum(parameter.numel() for parameter in group.parameters) for group in groups]
    parts = (("conv1", "bn1"), ("layer1",), ("layer2",), ("layer3",), ("layer4",))
    expected = [sum(p.numel() for name in part for p in getattr(backbone, name).parameters()) for part in parts]
    assert sizes == expected


def one_step(config: FeatureConfig, dataset) -> dict[str, torch.Tensor]:
    """How far a single step of plain gradient descent moves each weight."""
    plain = replace(
        config, epochs=1, batch_size=len(dataset), momentum=0.0, weight_decay=0.0, schedule="constant", select="last"
    )
    everything = np.arange(len(dataset))
    net = build_feature_net(plain, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    before = {name: value.clone() for name, value in net.named_parameters()}
    train_features(plain, net, dataset, everything, everything, seed=0, device=CPU)
    return {name: value.detach() - before[name] for name, value in net.named_parameters()}


def test_a_step_moves_each_block_by_its_rate(config, few_digits):
    config = replace(config, learning_rate=1e-2)
    moved = one_step(config, few_digits)
    slowed = one_step(replace(config, backbone_rate=0.5, layer_decay=0.25), few_digits)
    net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
    names = {id(parameter): name for name, parameter in net.named_parameters()}
    factors = dict.fromkeys(moved, 1.0)
    for place, block in enumerate(backbone_blocks(net.backbone)):
        factors |= {names[id(parameter)]: 0.5 * 0.25 ** (3 - place) for parameter in block.parameters}
    assert sorted(set(factors.values())) == [0.5 * 0.25**3, 0.5 * 0.25**2, 0.125, 0.5, 1.0]
    for name, factor in factors.items():
        # What is left of a small change after it was added to a weight has few digits.
        torch.testing.assert_close(slowed[name], factor * moved[name], rtol=1e-3, atol=2e-7)


def test_rates_by_block_resume_to_the_same_bytes(config, few_digits, tmp_path):
    slowed = replace(config, epochs=3, backbone_rate=0.5, layer_decay=0.7, frozen_blocks=1, frozen_batch_norm=True)
    whole = start(slowed, few_digits)
    resumed = stopped_and_gone_on(slowed, few_digits, tmp_path / "features.safetensors")
    assert same_bytes(whole.net.state_dict(), resumed.net.state_dict())
    assert whole.report == resumed.report


def test_frozen_blocks_keep_their_weights_and_the_others_learn(config, few_digits):
    frozen = replace(config, frozen_blocks=2)
    before, after = beginning(frozen, few_digits), start(frozen, few_digits).net
    state = after.state_dict()
    moved = {name for name, _ in after.named_parameters() if not torch.equal(before[name], state[name])}
    first_two = {f"backbone.{layer}.{kind}" for layer in (0, 2, 4, 6) for kind in ("weight", "bias")}
    assert moved == {name for name, _ in after.named_parameters()} - first_two
    assert not torch.equal(before["backbone.2.running_mean"], state["backbone.2.running_mean"])
    assert all(parameter.requires_grad for parameter in after.parameters())


def test_gradients_are_left_out_inside_and_asked_for_again_after():
    backbone = build_backbone("digits")
    with frozen_first_blocks(FeatureConfig(frozen_blocks=3), backbone):
        assert [p.requires_grad for p in backbone.parameters()] == [False] * 6 + [True] * 2
    assert all(p.requires_grad for p in backbone.parameters())


def test_frozen_statistics_stay_and_their_scales_learn(config, few_digits):
    # From scratch the statistics fit nothing, so the rate must be small.
    frozen = replace(config, frozen_batch_norm=True, learning_rate=0.002)
    before, after = beginning(frozen, few_digits), start(frozen, few_digits).net.state_dict()
    statistics = [name for name in before if "running" in name or "num_batches" in name]
    assert len(statistics) == 12
    assert all(torch.equal(before[name], after[name]) for name in statistics)
    assert not torch.equal(before["backbone.2.weight"], after["backbone.2.weight"])


def test_more_frozen_blocks_than_there_are_get_a_sentence(config, few_digits):
    with pytest.raises(ConfigError, match=r"frozen_blocks is 5.*has 4 blocks: block1, .*at most 4"):
        start(replace(config, frozen_blocks=5), few_digits)


def test_a_network_in_which_nothing_learns_gets_a_sentence(config, few_digits):
    nothing = replace(config, frozen_blocks=4, head="none", feature_dim=0, cross_entropy_weight=0.0)
    with pytest.raises(ConfigError, match="leaves nothing that learns"):
        start(nothing, few_digits)


def test_the_distance_to_the_start_and_its_gradient():
    weights = {"a": torch.nn.Parameter(torch.tensor([1.0, 2.0])), "b": torch.nn.Parameter(torch.tensor([[3.0]]))}
    start = StartingPoint(weights)
    assert float(start.distance().detach()) == 0.0
    with torch.no_grad():
        weights["a"] += torch.tensor([0.5, -1.0])
        weights["b"] += 2.0
    distance = start.distance()
    distance.backward()
    assert distance.item() == pytest.approx((0.25 + 1.0 + 4.0) / 2)
    assert weights["a"].grad.tolist() == [0.5, -1.0]
    assert weights["b"].grad.tolist() == [[2.0]]


def test_two_pulled_steps_are_those_written_out(config, few_digits):
    """Plain gradient descent by hand: the backbone with the pull alone, the head with weight decay alone."""
    pull, decay, rate = 30.0, 0.5, 0.01
    settings = {
        "epochs": 2,
        "batch_size": len(few_digits),
        "momentum": 0.0,
        "schedule": "constant",
        "learning_rate": rate,
        "weight_decay": decay,
        "cross_entropy_weight": 0.0,
        "augmentation": augmentation_preset("none"),
    }
    config = replace(config, backbone="digits", **settings)
    everything = np.arange(len(few_digits))
    images = torch.from_numpy(few_digits.images).permute(0, 3, 1, 2).float() / 255
    net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
    first = {name: value.detach().clone() for name, value in net.named_parameters()}
    losses = []
    for _ in range(2):
        loss = pairwise_metric_loss(net(images), torch.from_numpy(few_digits.labels), config.temperature)
        losses.append(float(loss.detach()))
        names, values = zip(*net.named_parameters(), strict=True)
        gradients = torch.autograd.grad(loss, values)
        with torch.no_grad():
            for name, value, gradient in zip(names, values, gradients, strict=True):
                own = pull * (value - first[name]) if name.startswith("backbone") else decay * value
                value -= rate * (gradient + own)
    expected = {name: value.detach() - first[name] for name, value in net.named_parameters()}

    def off(config):
        """How far each parameter ended from where it should, as a share of its way; and the losses on the way."""
        trained = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
        report = train_features(config, trained, few_digits, everything, everything, seed=0, device=CPU).report
        moved = {name: trained.get_parameter(name).detach() - first[name] for name in expected}
        # Single weights may differ by more: the images come in another order, and sums round accordingly.
        shares = {name: float((moved[name] - way).norm() / way.norm()) for name, way in expected.items()}
        return shares, [entry["loss"] for entry in report.history]

    shares, seen = off(replace(config, pretrained_pull=pull))
    assert seen == pytest.approx(losses, rel=1e-4)
    assert max(shares.values()) < 5e-3
    without, _ = off(config)
    assert min(share for name, share in without.items() if name.startswith("backbone")) > 5e-2


def test_the_pull_resumes_to_the_same_bytes(config, few_digits, tmp_path):
    pulled = replace(config, epochs=3, pretrained_pull=0.1, frozen_blocks=1)
    whole = start(pulled, few_digits)
    checkpoint = tmp_path / "features.safetensors"
    resumed = stopped_and_gone_on(pulled, few_digits, checkpoint)
    assert same_bytes(whole.net.state_dict(), resumed.net.state_dict())
    free = start(replace(pulled, pretrained_pull=0.0), few_digits)
    begin = beginning(pulled, few_digits)

    def moved(trained) -> float:
        return sum(float((p.detach() - begin[name]).square().sum()) for name, p in trained.net.named_parameters())

    assert moved(whole) < moved(free)


def test_a_starting_point_comes_back_from_a_checkpoint():
    weight = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    kept = StartingPoint({"w": weight}).state_dict()
    with torch.no_grad():
        weight.fill_(4.0)
    later = StartingPoint({"w": weight})
    later.load_state_dict(kept)
    assert later.distance().item() == pytest.approx((9 + 4) / 2)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"backbone_rate": -0.1}, "backbone_rate must not be negative"),
        ({"backbone_rate": math.inf}, "backbone_rate must be a finite number; got inf"),
        ({"layer_decay": 0.0}, "layer_decay is a factor above 0 and at most 1; got 0.0"),
        ({"layer_decay": 1.5}, "layer_decay is a factor above 0 and at most 1; got 1.5"),
        ({"pretrained_pull": -1.0}, "pretrained_pull must not be negative"),
        ({"pretrained_pull": math.inf}, "pretrained_pull must be a finite number; got inf"),
        ({"frozen_blocks": -1}, "frozen_blocks must not be negative"),
    ],
)
def test_settings_out_of_range_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        FeatureConfig(**settings)
