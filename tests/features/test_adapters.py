"""Low-rank adapters: what learns, what is left of them, and what goes on after a kill."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec

import numpy as np
import pytest
import torch
from torch import nn

from homefold import Homefold, preset_config
from homefold.config import HomefoldConfig
from homefold.data.splits import holdout_split
from homefold.errors import ConfigError
from homefold.features import build_feature_net, train_features
from homefold.features.adapters import adapted, linear_layers
from homefold.features.backbones import build_backbone
from homefold.store.model_card import how_it_was_trained

# peft takes seconds to import, and who tests something else has no need of it.
pytestmark = pytest.mark.skipif(not (find_spec("timm") and find_spec("peft")), reason="needs homefold[timm] and peft")

CPU = torch.device("cpu")
TINY = "timm:vit_tiny_patch16_224"
# One that calls its layers, and one whose attention reads the weights of `qkv` itself.
TOWERS = [(TINY, 32), ("timm:vit_small_patch16_dinov3", 32), ("timm:eva02_tiny_patch14_224", 28)]


@pytest.fixture(scope="module")
def config() -> HomefoldConfig:
    return preset_config(
        "foundation-tuned",
        {
            "features.backbone": TINY,
            "features.weights": "none",
            "preprocessing.image_size": 16,
            "features.adapter_rank": 2,
            "features.epochs": 4,
            "features.batch_size": 32,
            "features.feature_dim": 16,
            "features.average_every": 2,
            "features.checkpoint_seconds": 0.0,
            "features.augmentation.texture_probability": 0.0,
            "manifold.epochs": 20,
        },
    )


def start(config: HomefoldConfig, dataset, **more):
    features = config.features
    net = build_feature_net(features, dataset.image_size, normalisation="half", seed=0, pretrained=True)
    train, held_out = holdout_split(dataset.labels, dataset.domains, features.held_out, 0)
    return train_features(features, net, dataset, train, held_out, seed=0, device=CPU, **more)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "side"), TOWERS)
def test_every_adapter_learns_and_merging_keeps_the_answers(name, side):
    backbone, images = build_backbone(name, "none", (side, side)).eval(), torch.rand(2, 3, side, side)
    before = {key: value.clone() for key, value in backbone.state_dict().items()}
    with adapted(backbone, 2, (side, side), seed=0):
        with torch.no_grad():
            assert torch.equal(backbone(images), build_like(name, side, before)(images)), "B starts at 0"
        learning = {key: value for key, value in backbone.named_parameters() if value.requires_grad}
        assert all("lora_" in key for key in learning)
        rate = 0.05
        for _ in range(2):
            gradients = torch.autograd.grad(backbone(images).square().mean(), list(learning.values()))
            for value, gradient in zip(learning.values(), gradients, strict=True):
                value.data -= rate * gradient / gradient.norm().clamp(min=1e-12)
        assert all(bool(value.abs().sum() > 0) for key, value in learning.items() if "lora_B" in key)
        with torch.no_grad():
            expected = backbone(images)
    assert backbone.state_dict().keys() == before.keys()
    assert all(parameter.requires_grad for parameter in backbone.parameters())
    with torch.no_grad():
        torch.testing.assert_close(backbone(images), expected, rtol=1e-4, atol=1e-5)
    changed = {key for key, value in backbone.state_dict().items() if not torch.equal(value, before[key])}
    assert changed == {f"{layer}.weight" for layer in linear_layers(backbone, (side, side))}


def build_like(name: str, side: int, state: dict[str, torch.Tensor]) -> nn.Module:
    backbone = build_backbone(name, "none", (side, side)).eval()
    backbone.load_state_dict(state)
    return backbone


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.slow
def test_a_killed_training_goes_on_to_the_same_bytes(config, few_digits, tmp_path):
    whole = start(config, few_digits)
    seen = []

    def kill(figures):
        seen.append(figures)
        if len(seen) == 3:
            raise Killed

    with pytest.raises(Killed):
        start(config, few_digits, checkpoint=tmp_path / "features.safetensors", on_epoch=kill)
    resumed = start(config, few_digits, checkpoint=tmp_path / "features.safetensors")
    left, right = whole.net.state_dict(), resumed.net.state_dict()
    assert left.keys() == right.keys()
    assert all(torch.equal(left[name], right[name]) for name in left)
    assert not any("lora" in name for name in left)


@pytest.mark.slow
def test_a_saved_model_needs_no_peft_to_answer(config, few_digits, tmp_path):
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    model.save(tmp_path / "model")
    images = few_digits.only("street").images[:8]
    np.save(tmp_path / "images.npy", images)
    script = (
        "import sys; sys.modules['peft'] = None\n"
        "import numpy as np, torch; torch.set_num_threads(1)\n"
        "from homefold import Homefold\n"
        "model = Homefold.load('model', device='cpu')\n"
        "found = model.predict(np.load('images.npy')).probabilities\n"
        "np.save('found.npy', found)"
    )
    subprocess.run([sys.executable, "-c", script], check=True, cwd=tmp_path)
    assert np.array_equal(np.load(tmp_path / "found.npy"), model.predict(images).probabilities)


def test_adapters_without_peft_and_without_linear_layers_are_sentences(config, few_digits, monkeypatch):
    with pytest.raises(ConfigError, match=r"linear layers of a transformer, and a DigitsNet has none"):
        start(replace(config, features=replace(config.features, backbone="digits")), few_digits)
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ConfigError, match=r"needs the peft package: pip install 'homefold\[peft\]'"):
        start(config, few_digits)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"features.freeze": "backbone", "features.adapter_rank": 4}, r"lets nothing in the backbone learn"),
        ({"features.runs": 2}, r"set features\.runs=1 with features\.adapter_rank"),
    ],
)
def test_what_contradicts_adapters_is_refused(settings, words):
    with pytest.raises(ConfigError, match=words):
        preset_config("foundation-tuned", settings).require_consistent()


def test_it_is_told_with_the_training(config):
    told = how_it_was_trained({**vars(config.features)})
    assert "adapters of rank 2" in told
