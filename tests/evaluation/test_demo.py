"""The demonstration, on fewer epochs: it writes what it promises and never trains on its target."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from homefold import Homefold, preset_config
from homefold.data import load_digits_mini
from homefold.data.decoding.image import resize_images
from homefold.errors import ConfigError
from homefold.evaluation import demo as demo_module
from homefold.evaluation import read_records
from homefold.evaluation.demo import run_demo

pytestmark = pytest.mark.slow

QUICK = {
    "preprocessing__image_size": 16,
    "features__epochs": 5,
    "features__batch_size": 32,
    "features__feature_dim": 32,
    "manifold__epochs": 20,
    "manifold__latent_dim": 8,
}


def every(step: int):
    """A part of the embedded digits, at half their size."""
    digits = load_digits_mini()
    digits = digits.subset(np.arange(0, len(digits), step))
    return replace(digits, images=resize_images(digits.images, (16, 16)))


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    out = tmp_path_factory.mktemp("demo")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(demo_module, "load_digits_mini", lambda: every(4))
        return out, run_demo(out, target="print", device="cpu", config=preset_config("small", **QUICK))


def test_the_table_has_the_four_rows_and_they_are_above_chance(result):
    _, summary = result
    assert [row["method"] for row in summary["table"]] == [
        "Deep All",
        "f without projection",
        "1-NN",
        "full method",
    ]
    assert all(row["accuracy"] > 0.2 for row in summary["table"])
    assert summary["images"] == 218
    assert any("homefold fit" in line for line in summary["next"])


def test_the_folder_holds_model_records_and_picture(result):
    out, summary = result
    model = Homefold.load(out / "model", device="cpu")
    assert set(model.source_domains) == {"scan", "photo", "street"}
    accuracy = model.score(every(4).only("print"))
    assert accuracy == pytest.approx(summary["table"][3]["accuracy"])
    records = read_records(out / "records.jsonl")
    assert [record.accuracy for record in records] == [row["accuracy"] for row in summary["table"]]
    assert {(record.target, record.protocol, record.images) for record in records} == {
        ("print", "leave-one-domain-out", 218)
    }
    assert json.loads((out / "summary.json").read_text())["table"] == summary["table"]
    with Image.open(out / "homecoming.png") as picture:
        assert picture.size[0] > 800
        assert np.asarray(picture.convert("L")).std() > 10


def test_training_never_sees_the_target(tmp_path, monkeypatch):
    """With the target's images blackened the trained model has the same bytes."""
    digits = every(8)
    quick = preset_config(
        "small", **{**QUICK, "features__epochs": 1, "manifold__epochs": 60, "manifold__batch_size": 32}
    )
    # Drawn in the test above, after everything that is trained.
    monkeypatch.setattr(demo_module, "_draw_homecoming", lambda *inputs, **settings: None)
    weights = []
    for name in ("real", "black"):
        images = digits.images.copy()
        if name == "black":
            images[digits.domains == digits.domain_index("street")] = 0
        changed = type(digits)(images, digits.labels, digits.domains, digits.class_names, digits.domain_names, "d")
        monkeypatch.setattr(demo_module, "load_digits_mini", lambda changed=changed: changed)
        run_demo(tmp_path / name, target="street", device="cpu", config=quick)
        weights.append((tmp_path / name / "model" / "features.safetensors").read_bytes())
    assert weights[0] == weights[1]


def test_a_folder_that_no_demo_made_is_left_alone(tmp_path):
    (tmp_path / "records.jsonl").write_text("mine")
    with pytest.raises(ConfigError, match="was not made by a demo; choose another folder"):
        run_demo(tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["records.jsonl"]
    assert (tmp_path / "records.jsonl").read_text() == "mine"
