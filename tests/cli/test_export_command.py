"""`homefold export` as a person uses it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("onnxruntime", reason="needs homefold[onnx]")
pytestmark = pytest.mark.slow


def test_a_model_is_written_once_and_replaced_only_when_asked(
    homefold, shared_model: Path, tmp_path: Path, monkeypatch
) -> None:
    out = tmp_path / "onnx"
    first = homefold("export", shared_model, "--to", "onnx", "--out", out)
    assert first.code == 0, first.err
    assert "all labels equal" in first.out
    again = homefold("export", shared_model, "--out", out)
    assert again.code == 1
    assert "holds an export already" in again.err
    graph = (out / "model.onnx").read_bytes()
    # The same model's graph: torch takes seconds to make it again.
    monkeypatch.setattr("homefold.export.onnx._write_graph", lambda _, file: (True, file.write_bytes(graph)))
    (out / "README.md").unlink()
    replaced = homefold("export", shared_model, "--out", out, "--overwrite", "--json")
    assert replaced.code == 0
    assert json.loads(replaced.out)["probability_difference"] < 2e-4
    assert sorted(os.listdir(out)) == ["README.md", "model.onnx", "preprocessor.json"]


@pytest.mark.parametrize("model", ["nowhere", "."])
def test_what_is_no_model_is_told_in_a_sentence(homefold, tmp_path: Path, monkeypatch, model: str) -> None:
    monkeypatch.chdir(tmp_path)
    ended = homefold("export", model, "--out", tmp_path / "onnx")
    assert ended.code == 1
    assert ended.err.startswith("error: ")
    assert not (tmp_path / "onnx").exists()
