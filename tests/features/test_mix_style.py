"""MixStyle: its arithmetic against a loop, its weights against Beta, its place inside the network, its training."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, FeatureNet, build_backbone, build_feature_net, train_features
from homefold.features.blocks import backbone_blocks, inner_blocks, last_modules
from homefold.features.mix_style import MixStyle, beta_quantiles, draw_beta, mix_styles, mixed_styles

CPU = torch.device("cpu")


def slow_mix(maps, partners, own_share):
    """Channel by channel, in Python floats."""
    result = torch.empty_like(maps)
    for i in range(len(maps)):
        for channel in range(maps.shape[1]):
            statistics = []
            for row in (i, int(partners[i])):
                values = maps[row, channel].flatten().tolist()
                mean = sum(values) / len(values)
                variance = sum((value - mean) ** 2 for value in values) / len(values)
                statistics.append((mean, math.sqrt(variance + 1e-6)))
            (mean, deviation), (other_mean, other_deviation) = statistics
            share = float(own_share[i])
            new_mean = share * mean + (1 - share) * other_mean
            new_deviation = share * deviation + (1 - share) * other_deviation
            result[i, channel] = (maps[i, channel] - mean) / deviation * new_deviation + new_mean
    return result


@pytest.mark.slow
@given(n=st.integers(1, 5), c=st.integers(1, 3), h=st.integers(1, 4), w=st.integers(2, 4), seed=st.integers(0, 2**31))
def test_equals_the_loop_over_channels(n, c, h, w, seed):
    random = torch.Generator().manual_seed(seed)
    maps = torch.randn(n, c, h, w, generator=random) * 3 + 1
    partners = torch.randperm(n, generator=random)
    own_share = torch.rand(n, generator=random)
    torch.testing.assert_close(mix_styles(maps, partners, own_share), slow_mix(maps, partners, own_share))


def test_a_map_that_keeps_its_own_style_keeps_its_bytes():
    maps = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(0))
    mixed = mix_styles(maps, torch.tensor([1, 2, 3, 0]), torch.tensor([1.0, 0.5, 1.0, 0.0]))
    assert torch.equal(mixed[[0, 2]], maps[[0, 2]])
    assert not torch.equal(mixed[[1, 3]], maps[[1, 3]])


def test_a_map_with_none_of_its_own_style_has_its_partners():
    maps = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(1)) * torch.tensor([1.0, 4.0]).view(
        2, 1, 1, 1
    )
    mixed = mix_styles(maps, torch.tensor([1, 0]), torch.zeros(2))
    torch.testing.assert_close(mixed.mean((2, 3)), maps.flip(0).mean((2, 3)))
    torch.testing.assert_close(mixed.std((2, 3)), maps.flip(0).std((2, 3)), rtol=1e-4, atol=1e-5)


def test_no_gradient_flows_through_the_statistics():
    random = torch.Generator().manual_seed(2)
    maps = torch.randn(3, 2, 4, 4, generator=random).requires_grad_()
    partners, own_share = torch.tensor([2, 0, 1]), torch.tensor([0.3, 0.9, 1.0])
    upstream = torch.randn(3, 2, 4, 4, generator=random)
    (gradient,) = torch.autograd.grad(mix_styles(maps, partners, own_share), maps, upstream)
    deviation = (maps.detach().var((2, 3), correction=0) + 1e-6).sqrt()
    share = own_share[:, None]
    scale = (share * deviation + (1 - share) * deviation[partners]) / deviation
    torch.testing.assert_close(gradient, upstream * scale[:, :, None, None])


def test_half_precision_goes_in_and_comes_out():
    maps = torch.randn(4, 3, 5, 5, generator=torch.Generator().manual_seed(3)).bfloat16()
    partners, own_share = torch.tensor([1, 2, 3, 0]), torch.tensor([0.2, 0.4, 0.6, 1.0])
    mixed = mix_styles(maps, partners, own_share)
    assert mixed.dtype == torch.bfloat16
    assert torch.equal(mixed[3], maps[3])
    torch.testing.assert_close(mixed.float(), mix_styles(maps.float(), partners, own_share), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 4.0])
def test_the_weights_follow_beta(alpha):
    uniform = torch.rand(100_000, generator=torch.Generator().manual_seed(4))
    drawn = draw_beta(uniform, beta_quantiles(alpha)).double().numpy()
    assert drawn.min() >= 0
    assert drawn.max() <= 1
    expected = stats.beta(alpha, alpha)
    for probability in (0.01, 0.1, 0.2, 0.3, 0.4, 0.5):
        place = expected.ppf(probability)
        assert np.mean(drawn <= place) == pytest.approx(probability, abs=6e-3)
        if place > 1e-6:  # float32 has no numbers as near to 1 as it has near to 0
            assert np.mean(drawn >= 1 - place) == pytest.approx(probability, abs=6e-3)
    assert drawn.mean() == pytest.approx(0.5, abs=6e-3)
    assert drawn.var() == pytest.approx(expected.var(), rel=0.02)


def test_the_ends_of_the_uniform_numbers_are_the_ends_of_beta():
    assert draw_beta(torch.tensor([0.0, 0.5, 1.0]), beta_quantiles(0.1)).tolist() == pytest.approx([0.0, 0.5, 1.0])


BLOCKS = {
    "resnet18": (["stem", "layer1", "layer2", "layer3", "layer4"], ("layer1", "layer2")),
    "alexnet": (["features1", "features2", "features3", "classifier"], ("features1", "features2")),
    "digits": (["block1", "block2", "block3", "block4"], ("block1", "block2")),
    "digits-bn": (["block1", "block2", "block3", "block4"], ("block1", "block2")),
    "wrn-16-4": (["stem", "group1", "group2", "group3"], ("group1", "group2")),
}


@pytest.mark.parametrize("name", list(BLOCKS))
@pytest.mark.slow
def test_every_parameter_lies_in_one_block(name):
    backbone = build_backbone(name)
    blocks = backbone_blocks(backbone)
    assert (list(blocks), inner_blocks(blocks)) == BLOCKS[name]
    found = [id(item) for modules in blocks.values() for module in modules for item in module.parameters()]
    assert len(found) == len(set(found))
    assert set(found) == {id(parameter) for parameter in backbone.parameters()}


def test_a_network_of_ones_own_has_its_children_as_blocks():
    class Own(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(()))
            self.first, self.pool, self.second = torch.nn.Conv2d(3, 4, 3), torch.nn.Flatten(), torch.nn.Linear(4, 2)

    own = Own()
    assert backbone_blocks(own) == {"first": (own.first,), "second": (own.second,)}


def test_a_network_without_children_that_learn_is_one_block():
    assert list(backbone_blocks(torch.nn.Linear(3, 2))) == ["backbone"]


def small_net() -> FeatureNet:
    torch.manual_seed(5)
    return FeatureNet(build_backbone("digits-bn"), (32, 32), head="linear", feature_dim=8, normalisation="half")


def images_of_two_styles() -> torch.Tensor:
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    images[::2] *= 0.3
    return images


def test_the_network_mixes_in_training_mode_only_and_only_while_attached():
    net, images = small_net(), images_of_two_styles()
    training, evaluating = net.train()(images), net.eval()(images)
    style = MixStyle(net, last_modules(net.backbone, ("block1", "block2"), "mix_style_layers"), 1.0, 1.0, CPU)
    with style.attached():
        assert torch.equal(net(images), evaluating)
        net.train()
        found = []
        for seed in (7, 7, 8):
            torch.manual_seed(seed)
            found.append(net(images))
    assert torch.equal(found[0], found[1])
    assert not torch.allclose(found[0], found[2])
    assert not torch.allclose(found[0], training)
    assert torch.equal(net(images), training)


def test_with_probability_zero_nothing_changes_and_at_one_half_about_half_do():
    net = small_net().train()
    maps = torch.randn(2000, 2, 3, 3, generator=torch.Generator().manual_seed(8))
    torch.manual_seed(9)
    kept = {}
    for probability in (0.0, 0.5, 1.0):
        mixed = MixStyle(net, [], probability, 1.0, CPU).changed(maps)
        kept[probability] = float((mixed == maps).flatten(1).all(1).float().mean())
    assert kept[0.0] == 1.0
    assert kept[0.5] == pytest.approx(0.5, abs=0.05)
    assert kept[1.0] < 0.01


@pytest.mark.slow
def test_the_whole_step_is_one_graph_for_the_compiler():
    net, images = small_net().train(), images_of_two_styles()
    style = MixStyle(net, last_modules(net.backbone, ("block1", "block3"), "mix_style_layers"), 1.0, 0.5, CPU)
    with style.attached():
        compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
        found = []
        for function in (net, compiled):
            torch.manual_seed(10)
            found.append(function(images))
            found.append(function(images))
    torch.testing.assert_close(found[2], found[0])
    torch.testing.assert_close(found[3], found[1])
    assert not torch.equal(found[0], found[1])


def test_a_block_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(ConfigError, match=r"layer9.*DigitsNet.*block1, block2, block3, block4"):
        last_modules(build_backbone("digits"), ("layer9",), "mix_style_layers")


@pytest.mark.parametrize("named", [(), ("block1",)])
def test_the_settings_decide_whether_and_where_styles_are_mixed(named):
    images = images_of_two_styles()
    plain = small_net().train()(images)
    config = FeatureConfig(mix_style_probability=1.0, mix_style_alpha=1.0, mix_style_layers=named)
    found = {}
    for settings in (
        config,
        replace(config, mix_style_layers=("block1", "block2")),
        replace(config, mix_style_probability=0),
    ):
        net = small_net().train()
        torch.manual_seed(11)
        before = torch.get_rng_state()
        with mixed_styles(settings, net, CPU, (32, 32)):
            assert torch.equal(torch.get_rng_state(), before)
            found[settings] = net(images)
        assert not any(module._forward_hooks for module in net.modules())
    mixed, at_both, off = found.values()
    assert torch.equal(mixed, at_both) == (named == ())
    assert torch.equal(off, plain)
    assert not torch.allclose(mixed, plain)


def test_blocks_that_would_be_left_alone_are_refused():
    named = FeatureConfig(mix_style_layers=("block1",))
    with pytest.raises(ConfigError, match=r"^features\.mix_style_layers .* features\.mix_style_probability is 0"):
        named.require_consistent()
    replace(named, mix_style_probability=0.5).require_consistent()


def test_an_output_that_is_no_map_is_refused():
    net = small_net().train()
    with (
        MixStyle(net, [net.head], 1.0, 1.0, CPU).attached(),
        pytest.raises(ConfigError, match=r"Linear.*\(8, 8\).*earlier blocks"),
    ):
        net(images_of_two_styles())


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"mix_style_probability": 1.5}, r"^features\.mix_style_probability must be 0 to 1; got 1\.5"),
        ({"mix_style_alpha": 0.0}, r"^features\.mix_style_alpha must be above 0; got 0\.0"),
        ({"mix_style_layers": ("a", "b", "a")}, "mix_style_layers names a more than once; name every block once"),
    ],
)
def test_settings_out_of_range_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        FeatureConfig(**settings)


def start(config: FeatureConfig, dataset, **settings):
    train, held_out = holdout_split(dataset.labels, dataset.domains, config.held_out, 0)
    net = build_feature_net(config, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    return train_features(config, net, dataset, train, held_out, seed=0, device=CPU, **settings)


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_bytes_and_leaves_no_hooks(few_digits, quick_config, tmp_path):
    config = replace(quick_config.features, epochs=3, mix_style_probability=0.5, mix_style_layers=("block1", "block2"))

    def kill(figures):
        if figures["epoch"] == 2:
            raise Killed

    whole = start(config, few_digits)
    checkpoint = tmp_path / "features.safetensors"
    with pytest.raises(Killed):
        start(config, few_digits, checkpoint=checkpoint, on_epoch=kill)
    resumed = start(config, few_digits, checkpoint=checkpoint)
    plain = start(replace(config, mix_style_probability=0.0), few_digits)
    states = [run.net.state_dict() for run in (whole, resumed, plain)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["head.weight"], states[2]["head.weight"])
    assert states[0].keys() == states[2].keys()
    assert not any(module._forward_hooks for module in whole.net.modules())
