"""scripts/same-answers finds what differs, whatever it is called, and nothing that may differ."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import save_file

sys.path.insert(0, str(Path(__file__).parent.parent / "scripts"))

from same_answers.comparing import Comparison, compare_folders, compare_tensors, compare_values
from same_answers.spelling import setting_names, setting_words, spelled

from homefold import preset_config

ANSWER = {"path": "a.png", "label": "3", "probabilities": {"3": 0.9, "8": 0.1}, "off_manifold": 0.5}
ANSWER |= {"similarity_after": 0.75, "iterations": 50}
RECORD = {"suite": "digits-mini", "target": "street", "method": "vae", "seed": 0, "accuracy": 0.5, "images": 2}
RECORD |= {"status": "finished", "run": "old", "seconds": {"training": 1.0}, "config": {"features": {"pair_bias": 0}}}
RECORD |= {"facts": {"mean_iterations": 50.0, "stages": {"features-1": {"seconds": 1.0}}}}
ARRAYS = {"labels": np.array([3, 8]), "predicted": np.array([3, 3]), "off_manifold": np.array([0.5, 1.5], np.float32)}
ARRAYS |= {"probabilities": np.array([[0.9, 0.1], [0.6, 0.4]], np.float32)}


def write_case(folder: Path, answer: dict, record: dict, arrays: dict[str, np.ndarray], tensors: str) -> Path:
    """A folder as a case leaves it, with tensors in a file of this name."""
    (folder / "model").mkdir(parents=True)
    (folder / "runs" / "artifacts").mkdir(parents=True)
    weights = np.arange(6, dtype=np.float32).reshape(2, 3)
    save_file({"weight": weights}, folder / "model" / f"{tensors}.safetensors")
    (folder / "runs" / "stages" / tensors).mkdir(parents=True)
    save_file({"weight": weights}, folder / "runs" / "stages" / tensors / "state.safetensors")
    np.savez(folder / "runs" / "artifacts" / f"{record['run']}.npz", **arrays)
    (folder / "runs" / "records.jsonl").write_text(json.dumps(record) + "\n")
    (folder / "predict.jsonl").write_text(json.dumps(answer) + "\n")
    (folder / "fit.json").write_text(json.dumps({"seconds": 1.5, "held_out_accuracy": 0.75}))
    return folder


@pytest.fixture
def old(tmp_path) -> Path:
    return write_case(tmp_path / "old", ANSWER, RECORD, ARRAYS, "home")


def differing(results: list[Comparison]) -> dict[str, Comparison]:
    return {result.what: result for result in results if result.differences}


def test_times_settings_and_names_of_files_and_stages_may_differ(old, tmp_path):
    record = RECORD | {"run": "new", "seconds": {"training": 9.0}, "config": {}}
    record["facts"] = {"mean_iterations": 50.0, "stages": {"f-2": {"seconds": 3.0}}, "extra": 1}
    new = write_case(tmp_path / "new", ANSWER, record, ARRAYS, "model")
    results = compare_folders(old, new, {"predict.jsonl": "predict.jsonl"})
    assert not differing(results)
    counts = {result.what: result.count for result in results}
    assert counts["predict.jsonl"] == counts["predict.jsonl of OLD's model"] == 7
    assert counts["runs, artifacts"] == 10
    assert counts["model"] == counts["runs, stages"] == 1
    assert "only in NEW, not compared: facts.extra" in next(r for r in results if r.what == "runs, records").notes


def test_one_bit_of_an_answer_or_an_artifact_is_found(old, tmp_path):
    bit = math.ulp(0.5)
    arrays = ARRAYS | {"off_manifold": np.nextafter(ARRAYS["off_manifold"], np.float32(9))}
    new = write_case(tmp_path / "new", ANSWER | {"off_manifold": 0.5 + bit}, RECORD, arrays, "home")
    found = differing(compare_folders(old, new, {}))
    assert found.keys() == {"predict.jsonl", "runs, artifacts"}
    assert found["predict.jsonl"].differences == [f"a.png: off_manifold: 0.5 and {0.5 + bit}"]
    assert found["predict.jsonl"].largest == bit
    assert found["runs, artifacts"].largest == pytest.approx(1.2e-7, rel=0.01)


def test_a_field_that_vanished_is_a_difference_where_it_matters(old, tmp_path):
    answer = {name: value for name, value in ANSWER.items() if name != "off_manifold"}
    new = write_case(tmp_path / "new", answer, RECORD, ARRAYS, "home")
    (new / "fit.json").unlink()
    found = differing(compare_folders(old, new, {}))
    assert found["predict.jsonl"].differences == ["a.png: off_manifold is missing in NEW"]
    assert found["fit.json"].differences == ["NEW has no fit.json"]


def test_another_run_is_a_difference(old, tmp_path):
    new = write_case(tmp_path / "new", ANSWER, RECORD | {"method": "gan"}, ARRAYS, "home")
    assert len(differing(compare_folders(old, new, {}))["runs, records"].differences) == 2


def test_tensors_are_compared_as_often_as_they_occur():
    zero, one = np.zeros(3, np.float32), np.ones(3, np.float32)
    assert not compare_tensors("", {"a": zero, "b": zero, "c": one}, {"x": one, "y": zero, "z": zero}).differences
    twice = compare_tensors("", {"f:a": zero, "f:b": zero}, {"f:a": zero, "f:b": one})
    assert twice.differences == ["f:b (3,) differs"]
    assert twice.largest == 1
    fewer = compare_tensors("", {"a": zero, "b": zero}, {"a": zero})
    assert fewer.differences == ["b (3,) of OLD is not in NEW"]
    more = {"a": zero, "b": one}
    assert compare_tensors("", {"a": zero}, more).differences == ["b (3,) of NEW is not in OLD"]
    assert not compare_tensors("", {"a": zero}, more, more_allowed=True).differences
    assert compare_tensors("", {"a": zero}, {"a": zero.astype(np.float64)}).differences


def test_numbers_are_compared_as_bits_and_lists_by_length():
    result = Comparison("")
    compare_values(result, {"a": 0.0, "b": [1, 2], "c": math.nan}, {"a": -0.0, "b": [1], "c": math.nan})
    assert result.differences == ["a: 0.0 and -0.0", "b.length: 2 and 1"]


def test_settings_are_spelled_as_the_checkout_has_them():
    known = set(setting_names(preset_config("small")))
    assert "features.augmentation.hue" in known
    assert spelled("projection.steps", {"search.steps"}) == "search.steps"
    with pytest.raises(LookupError, match=r"no setting features\.epoch$"):
        spelled("features.epoch", known)
    settings = {"features.batch_size": 32}
    assert setting_words(settings, known, "") == ["--features.batch-size", "32"]
    assert setting_words(settings, known, "--set NAME=VALUE") == ["--set", "features.batch_size=32"]
