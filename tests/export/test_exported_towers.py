"""Networks of each family of foundation models, one layer deep and with random weights, as ONNX."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from homefold import Homefold
from homefold.config import replace_settings
from homefold.config.normalisation import published_input
from homefold.export import export_onnx
from homefold.export.onnx import largest_differences, session
from homefold.features.backbones import build_backbone
from homefold.features.network import FeatureNet
from homefold.stages.encoder import Encoder, frozen

pytest.importorskip("onnxruntime", reason="needs homefold[onnx]")
timm = pytest.importorskip("timm", reason="needs homefold[timm]")
pytestmark = pytest.mark.slow

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def fitted(few_digits, quick_config) -> Homefold:
    """Its manifold is the quickest to export; others have tests of their own."""
    config = replace_settings(quick_config, {"features.epochs": 1, "manifold.kind": "nearest"})
    return Homefold(config, device="cpu").fit(few_digits.only("scan", "photo"))


def on_tower(model: Homefold, name: str, side: int) -> Homefold:
    """The model with another network before its manifold."""
    normalisation = published_input(name)["preprocessing.normalisation"]
    settings = {
        "features.backbone": name,
        "preprocessing.image_size": side,
        "preprocessing.normalisation": normalisation,
    }
    config = replace_settings(model.trained.config, settings)
    torch.manual_seed(0)
    backbone = build_backbone(name, "none", (side, side))
    net = FeatureNet(
        backbone, (side, side), head="linear", feature_dim=model.net.feature_dim, normalisation=normalisation
    )
    changed = Homefold(config, device="cpu")
    changed._trained = replace(model.trained, config=config, encoder=Encoder(CPU, frozen(net, CPU)))
    return changed


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("timm:vit_small_patch14_dinov2", 28),
        ("timm:vit_small_patch16_dinov3", 32),
        ("timm:vit_base_patch32_clip_224", 64),
        ("timm:vit_base_patch16_siglip_224", 32),
    ],
)
def test_a_tower_of_each_family_gives_the_models_answers(fitted, tmp_path: Path, monkeypatch, name, side) -> None:
    create = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda wanted, **settings: create(wanted, depth=1, **settings))
    model = on_tower(fitted, name, side)
    export_onnx(model, tmp_path / "onnx")
    images = np.random.default_rng(1).integers(0, 256, (5, side, side, 3), dtype=np.uint8)
    runtime = session(tmp_path / "onnx" / "model.onnx", threads=1)
    probability, distance, labels = largest_differences(model, runtime, images, 2)
    assert max(probability, distance) < 2e-4
    assert labels == 0
