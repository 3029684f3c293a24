"""Every example runs and does what it says."""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from homefold import Homefold, preset_config

pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parent.parent / "examples"
QUICK = {"features__epochs": 2, "features__feature_dim": 32, "manifold__epochs": 20, "manifold__latent_dim": 8}


def load(name: str):
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_own_features():
    found = load("own_features").main()
    assert found["with projection"] > 0.7


def test_own_network(tmp_path, few_of_digits_mini):
    config = preset_config("small", **{**QUICK, "features__epochs": 12, "features__batch_size": 16})
    assert load("own_network").main(tmp_path / "model", config) > 0.2


def test_choose_when_to_abstain(few_of_digits_mini):
    rows = load("choose_when_to_abstain").main(preset_config("small", **QUICK))
    coverage = [row[1] for row in rows]
    assert coverage == sorted(coverage)
    assert coverage[-1] == 1.0


def test_mlflow_carries_a_model_and_gives_its_answers(tmp_path, few_digits, monkeypatch):
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("MLFLOW_TRACKING_URI", str(tmp_path / "runs"))
    monkeypatch.setenv("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    mlflow = pytest.importorskip("mlflow")
    config = preset_config("small", {"preprocessing.image_size": 16, "manifold.kind": "nearest", "features.epochs": 1})
    model = Homefold(config, device="cpu").fit(few_digits, holdout="street")
    model.save(tmp_path / "model")
    load("mlflow_model").main(str(tmp_path / "model"), str(tmp_path / "served"))
    assert not list((tmp_path / "served").rglob("*.pkl"))
    paths = [tmp_path / f"{i}.png" for i in range(3)]
    for path, image in zip(paths, few_digits.only("street").images[:3], strict=True):
        Image.fromarray(image).save(path)
    shutil.rmtree(tmp_path / "model")
    found = mlflow.pyfunc.load_model(str(tmp_path / "served")).predict(pd.DataFrame({"path": map(str, paths)}))
    expected = model.predict(paths)
    assert found["label"].tolist() == expected.labels.tolist()
    assert np.array_equal(found["confidence"], expected.confidences)


def test_no_example_is_left_out():
    tested = {"own_features", "own_network", "choose_when_to_abstain", "mlflow_model"}
    elsewhere = {"onnx_predict"}  # tests/export
    assert {path.stem for path in FOLDER.glob("*.py")} == tested | elsewhere


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_each_says_how_to_run_it(path):
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")
