"""Networks of each family of foundation models, two layers deep and with random weights, as ONNX."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from homefold import Homefold, preset_config
from homefold.export import export_onnx
from homefold.export.onnx import largest_differences, session
from homefold.features.backbones import build_backbone

pytest.importorskip("onnxruntime", reason="needs homefold[onnx]")
timm = pytest.importorskip("timm", reason="needs homefold[timm]")
pytestmark = pytest.mark.slow

QUICK = {
    "features.epochs": 2,
    "features.feature_dim": 16,
    "manifold.epochs": 20,
    "manifold.latent_dim": 4,
    "search.steps": 4,
}


@pytest.fixture
def _shallow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two layers in the place of twelve: what a layer is made of is the family's."""
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, **settings: create(name, depth=2, **settings))


@pytest.mark.usefixtures("_shallow")
@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("timm:vit_small_patch14_dinov2", 28),
        ("timm:vit_small_patch16_dinov3", 32),
        ("timm:vit_base_patch32_clip_224", 64),
        ("timm:vit_base_patch16_siglip_224", 32),
    ],
)
def test_a_tower_of_each_family_gives_the_models_answers(few_digits, tmp_path, name: str, side: int) -> None:
    torch.manual_seed(0)
    weights = tmp_path / "weights.safetensors"
    save_file(build_backbone(name, "none", (side, side)).state_dict(), weights)
    given = {"features.backbone": name, "features.weights": str(weights), "preprocessing.image_size": side}
    config = preset_config("foundation", {**given, **QUICK})
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    found = export_onnx(loaded, tmp_path / "onnx")
    assert found.loop
    images = np.random.default_rng(1).integers(0, 256, (5, side, side, 3), dtype=np.uint8)
    runtime = session(tmp_path / "onnx" / "model.onnx", threads=1)
    probability, distance, labels = largest_differences(model, runtime, images, 2)
    assert max(probability, distance) < 2e-4
    assert labels == 0
