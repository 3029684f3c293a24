"""Every example runs and does what it says."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from homefold import preset_config

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


def test_own_network(tmp_path):
    assert (
        load("own_network").main(tmp_path / "model", preset_config("small", **{**QUICK, "features__epochs": 6})) > 0.2
    )


def test_choose_when_to_abstain():
    rows = load("choose_when_to_abstain").main(preset_config("small", **QUICK))
    coverage = [row[1] for row in rows]
    assert coverage == sorted(coverage)
    assert coverage[-1] == 1.0


def test_no_example_is_left_out():
    tested = {"own_features", "own_network", "choose_when_to_abstain"}
    elsewhere = {"onnx_predict"}  # tests/export
    assert {path.stem for path in FOLDER.glob("*.py")} == tested | elsewhere


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_each_says_how_to_run_it(path):
    assert f"python examples/{path.name}" in path.read_text(encoding="utf-8")
