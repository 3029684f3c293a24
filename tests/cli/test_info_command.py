"""`homefold info`: what a model is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scene import Homefold

from homefold import ManifoldProjector
from homefold.cli.info import _epochs, _look_line
from homefold.config import config_from_dict, config_to_dict, preset_config
from homefold.model import Homefold as Model
from homefold.store.model_card import how_it_was_trained


def test_json_tells_all_that_the_folder_holds(homefold: Homefold, shared_model: Path) -> None:
    ended = homefold("info", shared_model, "--json")
    assert ended.code == 0
    facts = ended.json
    model = Model.load(shared_model, device="cpu")
    assert facts["classes"] == ["across", "upright"]
    assert facts["source_domains"] == ["day", "dusk"]
    assert config_from_dict(type(model.config), facts["settings"]) == model.config
    assert facts["measured"]["classifier"]["held_out_accuracy"] == model.reports["classifier"]["held_out_accuracy"]
    assert facts["size_bytes"] == sum(file.stat().st_size for file in shared_model.iterdir())
    assert facts["versions"]["torch"]
    assert facts["input"] == {"height": 32, "width": 32, "mean": [0.5] * 3, "std": [0.5] * 3}


def test_parameters_are_counted_as_torch_counts_them(homefold: Homefold, shared_model: Path) -> None:
    counted = homefold("info", shared_model, "--json").json["parameters"]
    model = Model.load(shared_model, device="cpu")
    parts = {
        "features": model.net,
        "manifold": model.feature_model.manifold,
        "classifier": model.feature_model.classifier,
    }
    expected = {name: sum(p.numel() for p in module.parameters()) for name, module in parts.items()}
    assert counted == {**expected, "total": sum(expected.values())}


def test_a_person_reads_it_in_words(homefold: Homefold, shared_model: Path) -> None:
    ended = homefold("info", shared_model)
    lines = {line.split("  ")[0]: line for line in ended.out.splitlines()}
    assert "2: across, upright" in lines["Classes"]
    assert "day, dusk" in lines["Source domains"]
    assert "36 trained on, 4 held out" in lines["Images"]
    assert "32 × 32 px, squash, normalisation half (mean 0.5, 0.5, 0.5; deviation 0.5, 0.5, 0.5)" in lines["Input"]
    assert "digits-bn, head linear, 145,728 parameters" in lines["Network"]
    assert "L_A (τ 0.1) 1, cross entropy 1" in lines["Training"]
    assert "vae, 32 latent dimensions" in lines["Manifold"]
    assert "starts: 1 encoder; at most 50 adam steps" in lines["Projection"]
    assert "%" in lines["Accuracy"]
    assert "torch" in lines["Made with"]


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, None),
        ({"look": {"views": 6, "textures": 4}}, "6 views; 4 fixed filters"),
        (
            {"style": {"blocks": ["block1", "block2"], "manifold": "domains", "weight": 0.5}},
            "styles 0.5 of the way to each source domain after block1 and block2",
        ),
        ({"style": {"blocks": ["layer1"], "manifold": "mean", "weight": 1.0}}, "styles 1 of the way to their mean"),
    ],
)
def test_how_target_images_are_seen_is_told_where_it_is_special(changes: dict[str, Any], line: str | None) -> None:
    config = {"look": {"views": 1, "textures": 0}, "style": {"blocks": []}}
    told = _look_line({name: {**value, **changes.get(name, {})} for name, value in config.items()})
    assert told.get("Target images", "").startswith(line) if line else told == {}


def test_training_is_told_by_its_losses_and_what_was_added() -> None:
    plain = config_to_dict(preset_config("paper"))["features"]
    assert how_it_was_trained(plain) == "L_A (τ 0.1) 1"
    preset = config_to_dict(preset_config("default"))["features"]
    assert how_it_was_trained(preset) == "L_A (τ 0.2) 1, cross entropy 1, styles mixed 0.5, weights averaged"
    # As a folder of an earlier version holds it.
    old = {name: plain[name] for name in ("temperature", "metric_weight", "cross_entropy_weight")}
    assert how_it_was_trained({**old, "metric_weight": 0, "cross_entropy_weight": 1}) == "cross entropy 1"


def test_of_several_runs_no_epoch_is_told() -> None:
    assert _epochs({"epochs": 9, "runs": 3}, 4) == "the mean of 3 runs"
    assert _epochs({"epochs": 9}, 4) == "best epoch 4 of 9"


def test_a_projector_of_features_is_described_too(homefold: Homefold, tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = np.repeat(["a", "b"], 30)
    features = random.normal(size=(60, 8)) + 3 * (labels == "a")[:, None]
    ManifoldProjector(manifold="nearest", device="cpu").fit(features, labels).save(tmp_path / "projector")
    ended = homefold("info", tmp_path / "projector")
    assert ended.code == 0
    assert "features of 8 dimensions" in ended.out
    assert "2: a, b" in ended.out
    assert homefold("info", tmp_path / "projector", "--json").json["parameters"]["features"] == 0
    assert "ManifoldProjector.load" in homefold("predict", tmp_path / "projector", tmp_path).error


def test_a_damaged_model_is_a_sentence(homefold: Homefold, model: Path) -> None:
    weights = model / "features.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    ended = homefold("info", model, "--json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"{weights} is truncated or was changed")
    weights.unlink()
    assert homefold("info", model).error.startswith(f"{weights} is missing")


def test_no_model_is_a_sentence(homefold: Homefold, tmp_path: Path) -> None:
    assert homefold("info", tmp_path / "none").error.startswith(f"there is no model at {tmp_path / 'none'}")
    assert homefold("info", tmp_path).error.startswith(f"{tmp_path} is not a homefold model")
