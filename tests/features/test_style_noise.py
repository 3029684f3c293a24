"""Styles moved at random: the arithmetic against a loop, how many and how far, its place in the network."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import FeatureConfig, FeatureNet, build_backbone, build_feature_net, train_features
from homefold.features.mix_style import MixStyle
from homefold.features.style_noise import StyleNoise, move_styles
from homefold.features.style_variation import style_modules, varied_styles

CPU = torch.device("cpu")


def slow_move(maps, steps):
    """Map by map and channel by channel."""
    means, deviations = maps.mean((2, 3)), (maps.var((2, 3), correction=0) + 1e-6).sqrt()
    result = torch.empty_like(maps)
    for i in range(len(maps)):
        for channel in range(maps.shape[1]):
            mean = means[i, channel] + steps[0, i, channel] * means[:, channel].std(correction=0)
            deviation = deviations[i, channel] + steps[1, i, channel] * deviations[:, channel].std(correction=0)
            normal = (maps[i, channel] - means[i, channel]) / deviations[i, channel]
            result[i, channel] = normal * max(float(deviation), 0.0) + mean
    return result


@given(n=st.integers(1, 5), c=st.integers(1, 3), h=st.integers(1, 4), w=st.integers(2, 4), seed=st.integers(0, 2**31))
def test_equals_the_loop_over_channels(n, c, h, w, seed):
    random = torch.Generator().manual_seed(seed)
    maps = torch.randn(n, c, h, w, generator=random) * torch.rand(n, c, 1, 1, generator=random) * 3 + 1
    steps = 2 * torch.randn(2, n, c, generator=random)
    torch.testing.assert_close(move_styles(maps, steps), slow_move(maps, steps), rtol=1e-4, atol=1e-4)


def test_a_map_without_steps_keeps_its_bytes_and_no_gradient_flows_through_the_statistics():
    random = torch.Generator().manual_seed(0)
    maps = torch.randn(3, 2, 4, 4, generator=random).requires_grad_()
    steps = torch.randn(2, 3, 2, generator=random)
    steps[:, 1] = 0
    moved = move_styles(maps, steps)
    assert torch.equal(moved[1], maps[1])
    assert not torch.equal(moved[0], maps[0])
    (gradient,) = torch.autograd.grad(moved.sum(), maps)
    deviation = (maps.detach().var((2, 3), correction=0) + 1e-6).sqrt()
    scale = (deviation + steps[1] * deviation.std(0, correction=0)).clamp(min=0) / deviation
    torch.testing.assert_close(gradient, scale[:, :, None, None].expand_as(maps))


def test_about_a_share_of_the_probability_moves_by_as_much_as_styles_differ():
    random = torch.Generator().manual_seed(1)
    maps = torch.randn(4000, 2, 3, 3, generator=random) + 5 * torch.randn(4000, 2, 1, 1, generator=random)
    torch.manual_seed(2)
    moved = StyleNoise(torch.nn.Identity(), [], 0.25).changed(maps)
    same = (moved == maps).flatten(1).all(1)
    assert float(same.float().mean()) == pytest.approx(0.75, abs=0.03)
    for statistic in (lambda values: values.mean((2, 3)), lambda values: values.std((2, 3), correction=0)):
        step = (statistic(moved) - statistic(maps))[~same] / statistic(maps).std(0)
        assert float(step.mean()) == pytest.approx(0, abs=0.1)
        assert float(step.std()) == pytest.approx(1, abs=0.05)


def small_net() -> FeatureNet:
    torch.manual_seed(3)
    return FeatureNet(build_backbone("digits-bn"), (32, 32), head="linear", feature_dim=8, normalisation="half")


@pytest.mark.parametrize("mixed", [0.0, 1.0])
@pytest.mark.parametrize("moved", [0.0, 1.0])
def test_the_network_trains_with_moved_styles_beside_mixed_ones_and_only_inside_the_block(mixed, moved):
    images = torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(4))
    training, evaluating = small_net().train()(images), small_net().eval()(images)
    net = small_net()
    config = FeatureConfig(mix_style_probability=mixed, style_noise_probability=moved)
    other = replace(config, style_noise_probability=0.0)
    with varied_styles(config, net, CPU, (32, 32)):
        assert torch.equal(net.eval()(images), evaluating)
        torch.manual_seed(5)
        found = net.train()(images)
    assert torch.equal(found, training) == (mixed == moved == 0)
    assert not any(module._forward_hooks for module in net.modules())
    net = small_net().train()
    with varied_styles(other, net, CPU, (32, 32)):
        torch.manual_seed(5)
        assert torch.equal(net(images), found) == (moved == 0)


BOTH = FeatureConfig(mix_style_probability=1.0, mix_style_alpha=1.0, style_noise_probability=1.0)


def test_styles_are_mixed_before_they_are_moved():
    net, maps = small_net().train(), torch.rand(16, 64, 5, 5, generator=torch.Generator().manual_seed(8))
    (last, _) = style_modules(net.backbone, (), (32, 32), "mix_style_layers")
    torch.manual_seed(9)
    mixed = MixStyle(net, [], 1.0, 1.0, CPU).changed(last(maps))
    expected = StyleNoise(net, [], 1.0).changed(mixed)
    with varied_styles(BOTH, net, CPU, (32, 32)):
        torch.manual_seed(9)
        assert torch.equal(last(maps), expected)


def test_nothing_is_drawn_before_the_first_image():
    net = small_net().train()
    torch.manual_seed(10)
    before = torch.get_rng_state()
    with varied_styles(BOTH, net, CPU, (32, 32)):
        assert torch.equal(torch.get_rng_state(), before)


def test_the_whole_step_is_one_graph_for_the_compiler():
    net, images = small_net().train(), torch.rand(8, 3, 32, 32, generator=torch.Generator().manual_seed(6))
    modules = style_modules(net.backbone, (), (32, 32), "style_noise_layers")
    with StyleNoise(net, modules, 1.0).attached():
        compiled = torch.compile(net, fullgraph=True, backend="aot_eager")
        found = []
        for function in (net, compiled):
            torch.manual_seed(7)
            found.append(function(images))
    torch.testing.assert_close(found[1], found[0])


def test_an_output_that_is_no_map_is_refused_by_the_settings_own_name():
    net = small_net().train()
    with (
        StyleNoise(net, [net.head], 1.0).attached(),
        pytest.raises(ConfigError, match=r"style_noise_layers names a Linear.*\(8, 8\).*earlier blocks"),
    ):
        net(torch.rand(8, 3, 32, 32))


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"style_noise_probability": -0.1}, "style_noise_probability is a probability, 0 to 1; got -0.1"),
        ({"style_noise_layers": ("a", "a")}, "style_noise_layers names a more than once; name every block once"),
    ],
)
def test_settings_out_of_range_are_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        FeatureConfig(**settings)


@pytest.mark.parametrize("kind", ["mix_style", "style_noise"])
def test_blocks_that_would_be_left_alone_are_refused(kind):
    named = {f"{kind}_layers": ("block1",)}
    with pytest.raises(ConfigError, match=f"{kind}_layers names blocks, but {kind}_probability is 0"):
        FeatureConfig(**named).require_consistent()
    FeatureConfig(**named, **{f"{kind}_probability": 0.5}).require_consistent()


def test_a_training_follows_the_settings(few_digits, quick_config):
    states = []
    for settings in ({}, {"style_noise_probability": 0.5}, {"style_noise_probability": 0.5}):
        config = replace(quick_config.features, epochs=2, **settings)
        train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)
        net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
        trained = train_features(config, net, few_digits, train, held_out, seed=0, device=CPU)
        states.append(trained.net.state_dict())
    assert all(torch.equal(states[1][name], states[2][name]) for name in states[1])
    assert not torch.equal(states[0]["head.weight"], states[1]["head.weight"])
    assert states[0].keys() == states[1].keys()
