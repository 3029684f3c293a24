"""Styles brought to the sources' inside the network: statistics against obvious references, and the whole path."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from homefold import Homefold, preset_config
from homefold.cli.evaluate import measure
from homefold.config import HomefoldConfig, look_preset
from homefold.data import load_digits_mini
from homefold.errors import ConfigError
from homefold.features import FeatureNet, extract_features
from homefold.features.backbones import build_backbone
from homefold.features.backbones.digits import DigitsNet
from homefold.features.blocks import early_blocks
from homefold.runtime.progress import SilentReporter
from homefold.style import (
    StyleConfig,
    collect_styles,
    fit_style,
    map_style,
    named_blocks,
    restyle,
    styled_net,
)
from homefold.style.model import kernel_fits

BLOCKS = ("block1", "block2")
KERNEL_TESTS = Path(__file__).with_name("kernel_in_the_interpreter.py")


def _net(seed: int = 0) -> FeatureNet:
    torch.manual_seed(seed)
    net = FeatureNet(build_backbone("digits-bn"), (32, 32), head="linear", feature_dim=16, normalisation="half").eval()
    return net.requires_grad_(False)


def _images(n: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (n, 32, 32, 3), dtype=np.uint8)


def _fitted(config: StyleConfig, net: FeatureNet, n: int = 60, domains: np.ndarray | None = None):
    images = _images(n)
    rows = np.arange(n)
    return fit_style(config, net, images, rows[: n - 12], domains=domains, device=torch.device("cpu")), images


class TestStatistics:
    def test_a_style_is_means_and_log_deviations(self):
        maps = torch.tensor([[[[1.0, 3.0]], [[5.0, 5.0]]]])
        # deviations 1 and 0; the least variance is a millionth
        assert map_style(maps)[0].tolist() == pytest.approx([2.0, 5.0, 0.0, 0.5 * np.log(1e-6)], abs=1e-5)

    @given(st.integers(0, 10_000), st.floats(-3, 3), st.floats(0.05, 5), st.sampled_from(["float32", "bfloat16"]))
    @pytest.mark.slow
    def test_a_style_is_that_of_a_slow_reference(self, seed, mean, deviation, dtype):
        drawn = torch.randn(2, 3, 6, 7, generator=torch.Generator().manual_seed(seed)) * deviation + mean
        maps = drawn.to(getattr(torch, dtype)).contiguous(memory_format=torch.channels_last)
        exact = maps.double()
        expected = [exact.mean((2, 3)), (exact.var((2, 3), correction=0) + 1e-6).sqrt().log()]
        assert torch.allclose(map_style(maps).double(), torch.cat(expected, dim=1), atol=2e-3)

    @given(st.integers(0, 10_000))
    def test_a_restyled_map_has_the_wanted_style_and_the_same_pattern(self, seed):
        generator = torch.Generator().manual_seed(seed)
        maps = torch.randn(3, 4, 5, 6, generator=generator) * 3 + 1
        wanted = torch.randn(3, 8, generator=generator).clamp(-1, 1)
        made = restyle(maps, map_style(maps), wanted)
        assert torch.allclose(map_style(made), wanted, atol=1e-4)
        flat = [
            (x - x.mean(-1, keepdim=True)).flatten(2)
            for x in (maps.flatten(2)[:, :, None], made.flatten(2)[:, :, None])
        ]
        assert torch.allclose(torch.cosine_similarity(flat[0], flat[1], dim=2), torch.ones(3, 4), atol=1e-4)

    def test_a_nearly_constant_channel_is_stretched_four_times_at_most(self):
        maps = torch.tensor([[[[1.0, 1.02]]]])
        made = restyle(maps, map_style(maps), torch.tensor([[3.0, 0.0]]))
        assert made.flatten().tolist() == pytest.approx([2.96, 3.04], abs=1e-4)

    @pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
    def test_maps_of_16_bits_are_moved_in_32_and_keep_their_kind(self, layout):
        maps = torch.randn(2, 5, 4, 4, generator=torch.manual_seed(3)).bfloat16().contiguous(memory_format=layout)
        own = map_style(maps)
        wanted = own + torch.linspace(-1, 1, own.shape[1])
        made = restyle(maps, own, wanted)
        mean, deviation = own.chunk(2, dim=1)
        scale = (wanted.chunk(2, dim=1)[1] - deviation).clamp_max(math.log(4)).exp()
        shift = wanted.chunk(2, dim=1)[0] - mean * scale
        exact = shift[:, :, None, None] + maps.float() * scale[:, :, None, None]
        assert made.dtype == torch.bfloat16
        assert made.is_contiguous(memory_format=layout)
        assert torch.equal(made, exact.bfloat16())

    def test_a_gradient_flows_through_a_restyled_map(self):
        maps = torch.randn(2, 5, 4, 4, generator=torch.manual_seed(4)).requires_grad_()
        own = map_style(maps).detach()
        wanted = own + 0.5
        made = restyle(maps, own, wanted)
        made.sum().backward()
        assert torch.allclose(maps.grad, torch.full_like(maps, math.exp(0.5)))
        assert torch.allclose(made.detach(), restyle(maps.detach(), own, wanted))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_a_gradient_flows_to_the_style_that_is_wanted(self, dtype):
        maps = torch.randn(2, 5, 4, 4, generator=torch.manual_seed(5)).to(dtype)
        own = map_style(maps)
        wanted = own.clone().requires_grad_()
        restyle(maps, own, wanted).float().sum().backward()
        assert torch.allclose(wanted.grad[:, :5], torch.full((2, 5), 16.0))

    def test_no_maps_have_no_styles(self):
        assert map_style(torch.empty(0, 3, 4, 4)).shape == (0, 6)

    def test_its_own_style_changes_nothing(self):
        maps = torch.randn(2, 3, 4, 4)
        own = map_style(maps)
        assert torch.allclose(restyle(maps, own, own), maps, atol=1e-6)


class TestKernel:
    @pytest.mark.slow
    def test_it_moves_styles_as_torch_does(self, interpreted):
        assert "22 passed" in interpreted(KERNEL_TESTS)

    def test_maps_on_a_cpu_are_left_to_torch(self):
        assert not kernel_fits(torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last))


class TestModel:
    def test_collected_styles_are_those_of_the_blocks(self):
        net, images = _net(), _images(7)
        found = collect_styles(net, images, torch.device("cpu"), BLOCKS)
        x = (torch.from_numpy(images).permute(0, 3, 1, 2).float() / 255 - net.mean) / net.std
        ends = [i for i, layer in enumerate(net.backbone) if isinstance(layer, torch.nn.ReLU)]
        for styles, end in zip(found, ends, strict=False):
            assert torch.allclose(styles, map_style(torch.nn.Sequential(*list(net.backbone)[: end + 1])(x)), atol=1e-4)
        assert [len(module._forward_hooks) for module in net.modules()] == [0] * len(list(net.modules()))

    def test_the_mean_gives_every_image_the_mean_source_style(self):
        net = _net()
        style, images = _fitted(StyleConfig(blocks=BLOCKS[:1], manifold="mean"), net)
        expected = collect_styles(net, images[:48], torch.device("cpu"), BLOCKS[:1])[0].mean(0)
        moved = styled_net(net, style)
        # What the block gives after its hook.
        seen = []
        module = next(layer for layer in moved.backbone if isinstance(layer, torch.nn.ReLU))
        module.register_forward_hook(lambda _m, _i, output: seen.append(map_style(output)))
        extract_features(moved, _images(3, seed=5) // 2 + 50, torch.device("cpu"))
        alive = seen[-1][0][64:] > -3
        assert alive.sum() > 50
        assert torch.allclose(seen[-1][0][:64], expected[:64], atol=1e-3)
        assert torch.allclose(seen[-1][0][64:][alive], expected[64:][alive], atol=5e-3)

    def test_weight_0_changes_nothing_and_half_goes_half_the_way(self):
        net = _net()
        maps = torch.randn(2, 64, 4, 4).relu()
        far, _ = _fitted(StyleConfig(blocks=BLOCKS[:1], manifold="mean"), net)
        half, _ = _fitted(StyleConfig(blocks=BLOCKS[:1], manifold="mean", weight=0.5), net)
        none, _ = _fitted(StyleConfig(blocks=BLOCKS[:1], manifold="mean", weight=0.0), net)
        assert torch.allclose(none.parts[0](maps), maps, atol=1e-5)
        between = (map_style(maps) + map_style(far.parts[0](maps))) / 2
        assert torch.allclose(map_style(half.parts[0](maps)), between, atol=1e-3)

    @pytest.mark.slow
    def test_each_domain_has_a_style_of_its_own_and_all_are_averaged(self):
        net, device, config = _net(), torch.device("cpu"), StyleConfig(blocks=BLOCKS, manifold="domains", weight=0.5)
        images, rows, domains = _images(60), np.arange(60), np.arange(60) % 3
        images[domains == 1] //= 2
        style = fit_style(config, net, images, rows[:48], domains=domains, device=device)
        assert len(style.destinations) == 3
        single = StyleConfig(blocks=BLOCKS, manifold="mean", weight=0.5)
        strange = _images(5, seed=9) // 4
        x = torch.from_numpy(strange).permute(0, 3, 1, 2) / 255
        pooled = [net.pooled(x)]
        for domain in range(3):
            own = fit_style(single, net, images, rows[:48][domains[:48] == domain], device=device)
            pooled.append(styled_net(net, own).pooled(x))
        moved = styled_net(net, style)
        torch.testing.assert_close(moved.pooled(x), torch.stack(pooled).mean(dim=0), atol=1e-4, rtol=1e-4)
        assert not torch.allclose(pooled[1], pooled[2], atol=1e-2)
        expected = net.head(torch.stack(pooled).mean(dim=0))
        torch.testing.assert_close(extract_features(moved, strange, device), expected, atol=1e-3, rtol=1e-3)

    def test_styles_of_domains_need_the_domains(self):
        with pytest.raises(ConfigError, match="needs the source domain of every image"):
            _fitted(StyleConfig(blocks=BLOCKS, manifold="domains"), _net())

    @pytest.mark.slow
    @pytest.mark.parametrize("manifold", ["mean", "domains"])
    def test_an_answer_does_not_depend_on_what_came_with_it(self, manifold):
        net = _net()
        domains = np.arange(60) % 2
        style, images = _fitted(StyleConfig(blocks=BLOCKS, manifold=manifold), net, domains=domains)
        moved = styled_net(net, style)
        together = extract_features(moved, images[:9], torch.device("cpu"))
        alone = torch.cat([extract_features(moved, images[i : i + 1], torch.device("cpu")) for i in range(9)])
        assert torch.equal(together, alone)

    @pytest.mark.parametrize(
        ("settings", "sentence"),
        [
            ({"weight": 1.5}, "style.weight must be 0 to 1; got 1.5"),
            ({"blocks": ("layer1", "layer1")}, "names a block twice"),
            ({"manifold": "vae"}, "manifold"),
        ],
    )
    def test_a_setting_that_makes_no_sense_gets_a_sentence(self, settings, sentence):
        with pytest.raises(ConfigError, match=sentence):
            StyleConfig(**settings)

    def test_a_later_block_is_modelled_as_it_will_see_its_images(self):
        net, device = _net(), torch.device("cpu")
        style, images = _fitted(StyleConfig(blocks=BLOCKS, manifold="mean"), net)
        first, _ = _fitted(StyleConfig(blocks=BLOCKS[:1], manifold="mean"), net)
        (expected,) = collect_styles(styled_net(net, first), images[:48], device, BLOCKS[1:])
        assert torch.allclose(style.parts[1].mean, expected.mean(0), atol=1e-5)
        (plain,) = collect_styles(net, images[:48], device, BLOCKS[1:])
        assert not torch.allclose(style.parts[1].mean, plain.mean(0), atol=1e-3)

    def test_blocks_stand_in_the_order_of_the_network(self):
        with pytest.raises(ConfigError, match="in the order in which an image passes them, block1 block2; got block2"):
            _fitted(StyleConfig(blocks=BLOCKS[::-1]), _net())

    def test_an_unknown_block_is_named_with_those_there_are(self):
        with pytest.raises(ConfigError, match=r"layer9.*its blocks are block1, block2, block3, block4"):
            _fitted(StyleConfig(blocks=("layer9",)), _net())


@pytest.fixture(scope="module")
def digits():
    return load_digits_mini()


@pytest.fixture(scope="module")
def fitted(digits):
    names = digits.domain_names
    config = preset_config(
        "small",
        {
            "features.epochs": 2,
            "features.feature_dim": 32,
            "manifold.epochs": 150,
            "style.blocks": BLOCKS,
            "style.manifold": "mean",
        },
    )
    source = digits.without(names[0])
    source = source.subset(np.arange(0, len(source), 6))
    return Homefold(config, device="cpu").fit(source), digits.only(names[0])


class TestWholeModel:
    @pytest.mark.slow
    def test_prediction_is_of_the_styled_network_and_the_control_of_the_plain_one(self, fitted):
        model, target = fitted
        images = target.images[:20]
        z = torch.from_numpy(model.searched_features(images))
        assert torch.equal(z, extract_features(styled_net(model.net, model.trained.style), images, torch.device("cpu")))
        assert not torch.allclose(z, torch.from_numpy(model.features(images)), atol=1e-3)
        own = model.feature_model.predict(z).probabilities
        assert np.array_equal(model.predict(images).probabilities, own)
        plain = model.feature_model.predict(torch.from_numpy(model.features(images)), projected=False).probabilities
        assert np.array_equal(model.predict(images, projected=False).probabilities, plain)

    @pytest.mark.slow
    def test_an_evaluation_compares_with_the_plain_network(self, fitted):
        model, target = fitted
        some = target.subset(np.arange(0, len(target), 9))
        found = measure(model, some, model.config.look, model.config.search, SilentReporter())
        assert found.accuracy_without_projection == pytest.approx(model.score(some, projected=False))
        assert found.accuracy_with_projection == pytest.approx(model.score(some))

    def test_unknown_blocks_are_told_before_any_training(self, digits):
        config = preset_config("small", {"style.blocks": ("layer1",)})
        with pytest.raises(ConfigError, match=r"layer1.*its blocks are block1"):
            Homefold(config, device="cpu").fit(digits)

    def test_it_is_saved_and_loaded_whole(self, fitted, tmp_path):
        model, target = fitted
        model.save(tmp_path / "model")
        loaded = Homefold.load(tmp_path / "model", device="cpu")
        assert loaded.config.style.blocks == BLOCKS
        assert np.array_equal(
            loaded.predict(target.images[:20]).probabilities, model.predict(target.images[:20]).probabilities
        )

    def test_the_card_of_a_saved_model_names_them(self, fitted, tmp_path):
        fitted[0].save(tmp_path / "model")
        card = (tmp_path / "model" / "README.md").read_text()
        assert "- Images of a new domain: styles 0.5 of the way to their mean after block1 and block2" in card
        assert "- Training: L_A (τ 0.1) 1, cross entropy 1" in card

    @pytest.mark.slow
    def test_styles_of_domains_are_saved_and_loaded_whole(self, digits, tmp_path):
        names = digits.domain_names
        changes = {"style__blocks": BLOCKS, "style__manifold": "domains", "style__weight": 0.5}
        small = preset_config("small", features__epochs=1, features__feature_dim=32, manifold__epochs=150, **changes)
        source = digits.without(names[0])
        model = Homefold(small, device="cpu").fit(source.subset(np.arange(0, len(source), 12)))
        model.save(tmp_path / "model")
        loaded = Homefold.load(tmp_path / "model", device="cpu")
        assert len(loaded.trained.style.destinations) == len(names) - 1
        images = digits.only(names[0]).images[:9]
        assert np.array_equal(loaded.predict(images).probabilities, model.predict(images).probabilities)

    def test_presets_move_styles_half_the_way_and_the_paper_does_not(self):
        assert HomefoldConfig().style.blocks == preset_config("paper").style.blocks == ()
        assert preset_config("default").style == StyleConfig(("early",), "mean", 0.5)
        assert preset_config("small").style == StyleConfig(("early",), "domains", 0.5)

    @pytest.mark.slow
    def test_after_a_fit_the_model_names_the_blocks_and_the_settings_are_as_they_were(self, digits):
        config = preset_config("small", {"features.epochs": 1, "features.feature_dim": 16, "manifold.kind": "nearest"})
        some = digits.subset(np.arange(0, len(digits), 24))
        model = Homefold(config, device="cpu").fit(some)
        assert model.trained.config.style == replace(config.style, blocks=("block1", "block2"))
        assert model.config is config
        assert len(model.trained.style.destinations) == len(digits.domain_names)

    def test_a_network_without_fine_maps_keeps_styles_and_says_so(self, digits):
        class Told(SilentReporter):
            def __init__(self):
                self.messages = []

            def message(self, text):
                self.messages.append(text)

        settings = {"features__epochs": 1, "features__mix_style_probability": 0.5, "manifold__kind": "nearest"}
        config = preset_config("small", **settings, features__feature_dim=16)
        flat = nn.Sequential(nn.Flatten(), nn.Linear(3 * 32 * 32, 24), nn.ReLU(), nn.Linear(24, 20))
        some, told = digits.subset(np.arange(0, len(digits), 24)), Told()
        model = Homefold(config, backbone=flat, device="cpu", reporter=told).fit(some)
        assert model.trained.config.style.blocks == ()
        assert model.trained.style is None
        assert any("no early blocks that give fine feature maps" in text for text in told.messages)
        assert len(model.predict(some.images[:3])) == 3

    def test_a_projection_may_leave_styles_and_the_papers_does(self, fitted):
        model, target = fitted
        images = target.images[:20]
        plain = model.feature_model.predict(torch.from_numpy(model.features(images))).probabilities
        found = model.predict(images, look=replace(model.config.look, styles=False))
        assert np.array_equal(found.probabilities, plain)
        assert not np.array_equal(model.predict(images).probabilities, plain)
        assert [look_preset(name).styles for name in ("default", "paper", "authors")] == [True, False, False]


class Coarse(nn.Module):
    """A network in two large parts, of which only the first gives a fine map."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 4, 3, stride=4, padding=1)
        self.second = nn.Conv2d(4, 8, 8, stride=8)
        self.last = nn.Linear(8, 8)

    def forward(self, images):
        return self.last(self.second(self.first(images)).mean((2, 3)))


class ChannelsLast(nn.Module):
    """Another module's maps as (n, h, w, c)."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, images):
        return self.module(images).permute(0, 2, 3, 1)


class TestEarly:
    @pytest.mark.parametrize(
        ("name", "side", "expected"),
        [
            ("resnet18", 224, ("layer1", "layer2")),
            ("digits-bn", 32, ("block1", "block2")),
            ("wrn-16-4", 32, ("group1", "group2")),
            ("alexnet", 224, ("features1",)),
        ],
    )
    @pytest.mark.slow
    def test_the_first_blocks_with_fine_maps(self, name, side, expected):
        assert early_blocks(build_backbone(name), (side, side)) == expected

    def test_the_network_is_left_as_it_was(self):
        net = DigitsNet(batch_norm=True).train()
        before = {name: value.clone() for name, value in net.state_dict().items()}
        early_blocks(net, (32, 32))
        assert net.training
        assert all(torch.equal(before[name], value) for name, value in net.state_dict().items())
        assert not any(module._forward_hooks for module in net.modules())

    def test_a_coarse_map_does_not_count(self):
        assert early_blocks(Coarse(), (64, 64)) == ("first",)

    @pytest.mark.slow
    def test_nor_do_maps_with_their_channels_last_and_several_outputs(self):
        class Unusual(nn.Module):
            def __init__(self):
                super().__init__()
                self.patches = ChannelsLast(nn.Conv2d(3, 20, 4, stride=4))
                self.memory = nn.LSTM(20, 6, batch_first=True)

            def forward(self, images):
                found, _ = self.memory(self.patches(images).flatten(1, 2))
                return found[:, -1]

        assert early_blocks(Unusual(), (32, 32)) == ()
        settings = {"features__epochs": 1, "features__feature_dim": 8, "manifold__kind": "nearest"}
        digits = load_digits_mini()
        some = digits.subset(np.random.default_rng(0).permutation(len(digits))[:200])
        config = preset_config("small", features__mix_style_probability=0.5, **settings)
        model = Homefold(config, backbone=Unusual(), device="cpu").fit(some)
        assert len(model.predict(some.images[:2])) == 2

    def test_names_that_were_given_stay(self):
        config = StyleConfig(("block3",))
        assert named_blocks(config, DigitsNet(), (32, 32)) is config

    def test_it_stands_alone(self):
        with pytest.raises(ConfigError, match="must be early alone or names of blocks; got 'early block1'"):
            StyleConfig(("early", "block1"))
