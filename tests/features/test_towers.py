"""Networks of timm, with random weights: their sizes, statistics, weights and layers."""

from __future__ import annotations

import contextlib
import json
from importlib.util import find_spec

import huggingface_hub
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from homefold import Homefold, preset_config
from homefold.cli import main
from homefold.config import replace_settings
from homefold.config.normalisation import STATISTICS, published_input
from homefold.errors import ConfigError, HomefoldError, ModelFileError
from homefold.export import export_onnx
from homefold.features.backbones import build_backbone, find_weights
from homefold.features.blocks import backbone_blocks, early_blocks
from homefold.features.network import FeatureNet
from homefold.runtime.progress import SilentReporter
from homefold.stages.features import weights_identity

timm = pytest.importorskip("timm")

# Name, a small size that it takes, its own size, the statistics it was trained with, the size of its feature.
TOWERS = [
    ("vit_small_patch14_dinov2", 42, 518, "imagenet", 384),
    ("vit_small_patch16_dinov3", 48, 256, "imagenet", 384),
    ("vit_base_patch32_clip_224", 64, 224, "clip", 768),
    ("vit_base_patch16_siglip_224", 32, 224, "half", 768),
]
NAMES = [name for name, *_ in TOWERS]
TINY = "timm:vit_tiny_patch16_224"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side", "own_side", "normalisation", "dim"), TOWERS)
def test_a_tower_is_built_for_a_size_and_gives_the_same_features_twice(name, side, own_side, normalisation, dim):
    assert published_input(f"timm:{name}") == {
        "preprocessing.image_size": own_side,
        "preprocessing.normalisation": normalisation,
    }
    backbone = build_backbone(f"timm:{name}", "none", (side, side))
    net = FeatureNet(backbone, (side, side), head="linear", feature_dim=16, normalisation=normalisation).eval()
    assert net.backbone_dim == dim
    images = torch.rand(3, 3, side, side)
    with torch.no_grad():
        first, second = net(images), net(images)
    assert first.shape == (3, 16)
    assert torch.equal(first, second)
    assert torch.isfinite(first).all()


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        (
            "vit_small_patch14_dinov2",
            100,
            r"patches of 14 pixels.*image_size=100 is no multiple of 14; set it to 98 or",
        ),
        ("vit_small_patch16_dinov3", 8, r"patches of 16 pixels.*image_size=8 .*; set it to 16\."),
        ("swin_tiny_patch4_window7_224", 30, r"patches of 4 pixels.*image_size=30 .*; set it to 28 or 32"),
    ],
)
@pytest.mark.slow
def test_a_size_that_does_not_fit_is_a_sentence(name, size, words):
    with pytest.raises(ConfigError, match=words):
        build_backbone(f"timm:{name}", "none", (size, size))


def test_a_size_at_which_a_network_stumbles_is_told_with_its_own():
    backbone = build_backbone("timm:levit_128s", "none", (100, 100))
    with pytest.raises(ConfigError, match=r"cannot take images of 100×100 pixels.*; it was trained at 224×224; choose"):
        FeatureNet(backbone, (100, 100), head="linear", feature_dim=16)


def test_a_preset_takes_size_and_statistics_from_the_tower_unless_they_are_given():
    dino = preset_config("default", {"features.backbone": "timm:vit_small_patch14_dinov2"}).preprocessing
    assert (dino.image_size, dino.normalisation) == (518, "imagenet")
    smaller = {"features.backbone": "timm:vit_base_patch32_clip_224", "preprocessing.image_size": 96}
    clip = preset_config("default", smaller).preprocessing
    assert (clip.image_size, clip.normalisation) == (96, "clip")
    plain = preset_config("default", {"features.backbone": "resnet50"})
    assert plain.preprocessing == preset_config("default").preprocessing
    assert preset_config("small", {"features.backbone": TINY}).preprocessing == preset_config("small").preprocessing
    assert published_input("timm:nothing_of_the_kind") == {}


def test_every_network_of_timm_has_statistics_with_a_name():
    found = {
        published_input(f"timm:{name}").get("preprocessing.normalisation") for name in timm.list_models(pretrained=True)
    }
    assert found <= set(STATISTICS)
    assert {"imagenet", "half", "none", "clip"} <= found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_the_blocks_of_a_transformer_are_its_layers(name):
    blocks = list(backbone_blocks(build_backbone(f"timm:{name}")))
    assert blocks[:13] == ["stem", *(f"block{number}" for number in range(1, 13))]
    assert not any("block" in other for other in blocks[13:])


@pytest.mark.slow
def test_a_transformer_with_stages_has_those_and_neither_kind_has_maps_with_a_style():
    swin = build_backbone("timm:swin_tiny_patch4_window7_224")
    assert list(backbone_blocks(swin)) == ["stem", "stage1", "stage2", "stage3", "stage4", "norm"]
    assert early_blocks(build_backbone(TINY, "none", (32, 32)), (32, 32)) == ()


class TestWeights:
    @pytest.mark.parametrize("kind", ["safetensors", "pth"])
    @pytest.mark.slow
    def test_of_a_file_made_at_another_size(self, tmp_path, kind):
        torch.manual_seed(1)
        published = build_backbone(TINY)
        path = tmp_path / f"weights.{kind}"
        state = {**published.state_dict(), "head.weight": torch.zeros(1000, 192), "head.bias": torch.zeros(1000)}
        save_file(state, path) if kind == "safetensors" else torch.save(state, path)
        at_own_size, smaller = build_backbone(TINY, str(path)), build_backbone(TINY, str(path), (32, 32))
        assert all(torch.equal(value, published.state_dict()[name]) for name, value in at_own_size.state_dict().items())
        assert torch.equal(smaller.blocks[3].mlp.fc1.weight, published.blocks[3].mlp.fc1.weight)
        assert smaller.pos_embed.shape == (1, 5, 192)
        expected = timm.layers.resample_abs_pos_embed(published.pos_embed, new_size=(2, 2), num_prefix_tokens=1)
        torch.testing.assert_close(smaller.pos_embed, expected)

    @pytest.mark.slow
    @pytest.mark.parametrize("name", NAMES)
    def test_of_each_tower_come_back(self, tmp_path, name):
        source = build_backbone(f"timm:{name}")
        save_file(source.state_dict(), tmp_path / "weights.safetensors")
        loaded = build_backbone(f"timm:{name}", str(tmp_path / "weights.safetensors")).state_dict()
        assert all(torch.equal(value, loaded[key]) for key, value in source.state_dict().items())

    def test_of_another_network_are_refused(self, tmp_path):
        save_file({"some.weight": torch.zeros(2)}, tmp_path / "weights.safetensors")
        with pytest.raises(ModelFileError, match=r"does not hold weights of timm:vit_tiny.*some\.weight"):
            build_backbone(TINY, str(tmp_path / "weights.safetensors"))

    def test_auto_asks_where_nothing_is_cached(self, tmp_path, monkeypatch):
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path))
        monkeypatch.setenv("TORCH_HOME", str(tmp_path))
        with pytest.raises(
            ConfigError, match=r"none lie in the cache.*features\.weights to timm to download.*or to none"
        ):
            build_backbone(TINY, "auto")
        assert find_weights(TINY, "timm") is None
        with pytest.raises(ConfigError, match=r"/nowhere\.pth does not exist; give .*, timm, or none"):
            build_backbone(TINY, "/nowhere.pth")

    @pytest.mark.parametrize("weights", ["auto", "timm"])
    def test_cached_ones_are_taken_without_asking_the_network(self, tmp_path, monkeypatch, weights):
        source = build_backbone(TINY)
        path = tmp_path / "model.safetensors"
        save_file(source.state_dict(), path)
        wanted = []

        def look(repository, file, revision=None):
            wanted.append((repository, file))
            return str(path)

        monkeypatch.setattr(huggingface_hub, "try_to_load_from_cache", look)
        loaded = build_backbone(TINY, weights, (32, 32))
        assert torch.equal(loaded.blocks[0].attn.qkv.weight, source.blocks[0].attn.qkv.weight)
        assert wanted[0] == ("timm/vit_tiny_patch16_224.augreg_in21k_ft_in1k", "model.safetensors")
        config = preset_config("default", {"features.backbone": TINY, "features.weights": weights}).features
        assert weights_identity(config) != weights

    def test_a_download_that_fails_is_a_sentence(self, monkeypatch):
        def fail(*words, pretrained=False, **more):
            raise OSError("no route to host")

        monkeypatch.setattr(timm, "create_model", fail)
        monkeypatch.setattr("homefold.features.backbones.cached_weights", lambda name: None)
        with pytest.raises(ModelFileError, match=r"timm:vit_tiny.*could not be downloaded \(no route to host\)"):
            build_backbone(TINY, "timm")

    def test_a_file_is_known_by_its_content(self, tmp_path):
        for name in ("a", "b"):
            save_file({"x": torch.zeros(2)}, tmp_path / name)
        configs = [
            preset_config("default", {"features.backbone": TINY, "features.weights": str(tmp_path / name)}).features
            for name in ("a", "b")
        ]
        assert weights_identity(configs[0]) == weights_identity(configs[1])


@pytest.mark.slow
def test_a_saved_tower_is_loaded_exported_and_told_of(few_digits, tmp_path, capsys):
    torch.manual_seed(0)
    path = tmp_path / "weights.safetensors"
    save_file(build_backbone(TINY).state_dict(), path)
    config = preset_config(
        "foundation",
        {
            "features.backbone": TINY,
            "features.weights": str(path),
            "preprocessing.image_size": 16,
            "features.epochs": 2,
            "features.feature_dim": 16,
            "manifold.epochs": 20,
        },
    )
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    model.save(tmp_path / "model")
    street = few_digits.only("street")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    assert (loaded.predict(street).probabilities == model.predict(street).probabilities).all()
    if find_spec("onnxruntime") and find_spec("onnxscript"):
        exported = export_onnx(loaded, tmp_path / "onnx")
        assert exported.probability_difference < 2e-4
    capsys.readouterr()
    assert main(["info", str(tmp_path / "model")]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "16 × 16 px, squash, normalisation half" in told
    assert f"{TINY}, head" in told
    assert main(["info", str(tmp_path / "model"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["settings"]["preprocessing"]["normalisation"] == "half"


class Listener(SilentReporter):
    def __init__(self):
        self.messages = []

    def message(self, text):
        self.messages.append(text)


@pytest.mark.slow
def test_what_a_transformer_has_no_use_for_and_other_statistics_are_told(few_digits, tmp_path):
    save_file(build_backbone(TINY).state_dict(), tmp_path / "weights.safetensors")
    config = preset_config("default", {"preprocessing.image_size": 16, "features.epochs": 1, "manifold.epochs": 1})
    other = {"features.backbone": TINY, "features.weights": str(tmp_path / "weights.safetensors")}
    listener = Listener()
    with contextlib.suppress(HomefoldError):  # one epoch may teach it nothing
        Homefold(replace_settings(config, other), device="cpu", reporter=listener).fit(few_digits)
    told = " ".join(listener.messages)
    assert "MixStyle is off: this network has no early blocks" in told
    assert "Styles are left as they are" in told
    assert f"{TINY} was trained with the normalisation half, and this fit uses imagenet" in told


def test_a_network_without_weights_in_timm_is_still_built():
    assert isinstance(build_backbone("timm:resnet10t", "none", (32, 32)), nn.Module)
