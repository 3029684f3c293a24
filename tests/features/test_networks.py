"""Backbones, heads and their weights."""

from __future__ import annotations

import pytest
import torch
import torchvision
from safetensors.torch import save_file
from torch import nn

from homefold.classifier import Classifier
from homefold.errors import ConfigError, ModelFileError
from homefold.features.backbones import build_backbone, find_weights, list_backbones
from homefold.features.backbones.digits import DigitsNet
from homefold.features.backbones.wide_resnet import WideResNet
from homefold.features.network import FeatureNet, build_head
from homefold.manifold import ManifoldConfig, build_manifold


def count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_the_papers_parameters_with_resnet18_are_11_32_million():
    net = FeatureNet(build_backbone("resnet18"), (224, 224), head="linear", feature_dim=256)
    vae = build_manifold(ManifoldConfig(kind="conv-vae", latent_dim=32), 256)
    total = count(net) + count(vae) + count(Classifier(256, 7))
    assert total == 11_318_904
    assert round(total / 1e6, 2) == 11.32


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size", "dim"),
    [
        ("resnet18", (64, 48), 512),
        ("resnet50", (64, 64), 2048),
        ("alexnet", (96, 80), 4096),
        ("digits", (32, 32), 256),
        ("digits-bn", (48, 32), 384),
        ("wrn-16-4", (32, 32), 256),
    ],
)
def test_each_backbone_gives_features_at_sizes_it_takes(name, size, dim):
    net = FeatureNet(build_backbone(name), size, head="linear", feature_dim=16).eval()
    assert net.backbone_dim == dim
    with torch.no_grad():
        assert net(torch.rand(2, 3, *size)).shape == (2, 16)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["resnet18", "resnet34", "resnet50", "resnet101"])
def test_a_residual_network_is_torchvisions_without_its_last_layer(name):
    torch.manual_seed(3)
    net, drawn = build_backbone(name), torch.rand(1)
    torch.manual_seed(3)
    theirs, drawn_by_theirs = getattr(torchvision.models, name)(weights=None), torch.rand(1)
    theirs.fc = nn.Identity()
    assert torch.equal(drawn, drawn_by_theirs), "as many random numbers were drawn"
    assert [place for place, _ in net.named_modules()] == [place for place, _ in theirs.named_modules()]
    state, expected = net.state_dict(), theirs.state_dict()
    assert list(state) == list(expected)
    assert all(torch.equal(state[key], expected[key]) for key in state)
    images = torch.rand(2, 3, 64, 96)
    for training in (True, False):
        features, by_theirs = net.train(training)(images), theirs.train(training)(images)
        assert torch.equal(features, by_theirs)
        features.square().sum().backward()
        by_theirs.square().sum().backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(net.parameters(), theirs.parameters(), strict=True))


def test_a_size_too_small_for_a_backbone_is_a_sentence():
    with pytest.raises(ConfigError, match=r"8×8 pixels.*preprocessing.image_size"):
        FeatureNet(build_backbone("digits"), (8, 8))


@pytest.mark.slow
def test_timm_by_name():
    net = FeatureNet(build_backbone("timm:resnet10t"), (32, 32), head="mlp", feature_dim=8)
    assert net(torch.rand(2, 3, 32, 32)).shape == (2, 8)
    with pytest.raises(ConfigError, match="timm has no model"):
        build_backbone("timm:resnet_that_is_not")
    with pytest.raises(ConfigError, match=r"close names: vit_tiny_patch16_224,"):
        build_backbone("timm:vit_tinny")
    with pytest.raises(ConfigError, match=r"features\.weights to timm"):
        build_backbone("timm:resnet10t", "auto")


def test_an_unknown_backbone_lists_what_exists():
    with pytest.raises(ConfigError, match=r"resnet81.*resnet18"):
        build_backbone("resnet81")
    assert {"resnet18", "resnet50", "alexnet", "digits", "wrn-16-4"} <= set(list_backbones())


def test_the_digits_net_is_conv_relu_pool_four_times():
    net = DigitsNet().eval()
    x = torch.randn(2, 3, 32, 32)
    expected = x
    convolutions = [layer for layer in net if isinstance(layer, nn.Conv2d)]
    for convolution in convolutions:
        expected = nn.functional.max_pool2d(torch.relu(convolution(expected)), 2)
    with torch.no_grad():
        torch.testing.assert_close(net(x), expected.flatten(1))
    assert [tuple(c.weight.shape) for c in convolutions] == [(64, 3, 3, 3), *[(64, 64, 3, 3)] * 3]


def test_every_layer_of_the_wide_network_gets_a_gradient():
    net = WideResNet()
    net(torch.randn(2, 3, 32, 32)).square().sum().backward()
    assert all(parameter.grad is not None and parameter.grad.abs().sum() > 0 for parameter in net.parameters())
    assert count(net) == 2_746_320


def test_heads():
    assert count(build_head("linear", 512, 256)) == 512 * 256 + 256
    assert count(build_head("mlp", 512, 256)) == 512 * 512 + 512 + 512 * 256 + 256
    assert count(build_head("office-home", 512, 256)) == 2 * (512 * 512 + 512) + 512 * 256 + 256
    assert isinstance(build_head("none", 64, 64), nn.Identity)
    with pytest.raises(ConfigError, match="64 features"):
        build_head("none", 64, 32)
    with pytest.raises(ConfigError, match="there is no head"):
        build_head("big", 64, 32)


def test_pixels_are_normalised_before_the_backbone():
    net = FeatureNet(nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()), (4, 4), head="none", feature_dim=3)
    grey = torch.full((1, 3, 4, 4), 0.5)
    expected = (0.5 - torch.tensor([0.485, 0.456, 0.406])) / torch.tensor([0.229, 0.224, 0.225])
    torch.testing.assert_close(net(grey)[0], expected)


class TestWeights:
    def test_from_a_safetensors_file_in_half_precision(self, tmp_path):
        source = build_backbone("resnet18")
        path = tmp_path / "weights.safetensors"
        half = {k: v.half() if v.is_floating_point() else v for k, v in source.state_dict().items()}
        save_file({**half, "fc.weight": torch.zeros(1000, 512)}, path)
        loaded = build_backbone("resnet18", str(path))
        assert loaded.conv1.weight.dtype == torch.float32
        torch.testing.assert_close(loaded.conv1.weight, source.conv1.weight.half().float())

    def test_from_a_torch_file(self, tmp_path):
        source = build_backbone("digits")
        path = tmp_path / "weights.pth"
        torch.save({"state_dict": {f"module.{k}": v for k, v in source.state_dict().items()}}, path)
        loaded = build_backbone("digits", str(path))
        assert torch.equal(loaded[0].weight, source[0].weight)

    def test_a_file_that_would_run_code_is_refused(self, tmp_path):
        path = tmp_path / "evil.pth"
        torch.save({"a": Evil()}, path)
        with pytest.raises(ModelFileError, match=r"evil\.pth"):
            build_backbone("digits", str(path))
        assert not Evil.ran

    def test_of_another_network_are_refused_with_the_difference(self, tmp_path):
        path = tmp_path / "weights.safetensors"
        save_file({"some.weight": torch.zeros(2)}, path)
        with pytest.raises(ModelFileError, match=r"does not hold weights of resnet18.*some\.weight"):
            build_backbone("resnet18", str(path))

    def test_truncated(self, tmp_path):
        path = tmp_path / "weights.safetensors"
        save_file({"a": torch.zeros(100)}, path)
        path.write_bytes(path.read_bytes()[:-50])
        with pytest.raises(ModelFileError, match="cannot be read"):
            build_backbone("resnet18", str(path))

    def test_missing_file(self):
        with pytest.raises(ConfigError, match=r"/nowhere\.pth does not exist"):
            build_backbone("resnet18", "/nowhere.pth")

    @pytest.mark.slow
    def test_auto_asks_when_nothing_is_cached_and_uses_what_is(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        with pytest.raises(ConfigError, match=r"features\.weights to torchvision.*to a safetensors.*to none"):
            build_backbone("resnet18", "auto")
        assert find_weights("resnet18", "torchvision") is None
        checkpoints = tmp_path / "hub" / "checkpoints"
        checkpoints.mkdir(parents=True)
        source = build_backbone("resnet18")
        torch.save(source.state_dict(), checkpoints / "resnet18-f37072fd.pth")
        assert torch.equal(build_backbone("resnet18", "auto").conv1.weight, source.conv1.weight)

    def test_torchvision_has_none_for_the_small_networks(self):
        with pytest.raises(ConfigError, match="no weights for 'digits'"):
            build_backbone("digits", "torchvision")


class Evil:
    ran = False

    def __reduce__(self):
        return (setattr, (Evil, "ran", True))
