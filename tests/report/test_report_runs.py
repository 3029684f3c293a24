"""Reading what a benchmark left, leniently."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from made_up_runs import record, write_artifacts, write_runs

from homefold.errors import DataError
from homefold.report.runs import Setup, read_runs


def test_a_record_of_nothing_but_the_least_is_read(tmp_path: Path) -> None:
    write_runs(tmp_path, [{"dataset": "mine", "target": "d", "method": "new", "accuracy": 0.5, "surprise": [1]}])
    (run,) = read_runs(tmp_path).runs
    assert (run.dataset, run.method, run.percent, run.seed, run.suite, run.facts) == ("mine", "new", 50.0, 0, "", {})


def test_a_success_replaces_a_failure_and_is_not_replaced_by_one(tmp_path: Path) -> None:
    failed, done = record(status="failed", error="no memory"), record(accuracy=0.9)
    write_runs(tmp_path / "a", [failed, done])
    write_runs(tmp_path / "b", [done, failed])
    for name in ("a", "b"):
        (run,) = read_runs(tmp_path / name).runs
        assert run.accuracy == 0.9
    write_runs(tmp_path / "c", [failed])
    (run,) = read_runs(tmp_path / "c").runs
    assert (run.ok, run.error) == (False, "no memory")


@pytest.mark.parametrize("accuracy", [86.4, -0.1, None, "high", float("nan")])
def test_an_accuracy_that_is_no_share_counts_as_failed(tmp_path: Path, accuracy: object) -> None:
    write_runs(tmp_path, [record(accuracy=accuracy)])
    (run,) = read_runs(tmp_path).runs
    assert not run.ok
    assert "accuracy" in run.error


def test_a_line_cut_short_at_the_end_is_left_out_and_one_inside_is_named(tmp_path: Path) -> None:
    whole = json.dumps(record())
    path = write_runs(tmp_path, []) / "records.jsonl"
    path.write_text(f"{whole}\n{whole[:40]}")
    assert len(read_runs(tmp_path).runs) == 1
    path.write_text(f"{whole[:40]}\n{whole}\n")
    with pytest.raises(DataError, match=r"records\.jsonl, line 1 is not a run record"):
        read_runs(tmp_path)


def test_no_folder_no_records_and_no_runs_are_sentences(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no folder"):
        read_runs(tmp_path / "none")
    with pytest.raises(DataError, match=r"holds no records\.jsonl"):
        read_runs(tmp_path)
    (tmp_path / "records.jsonl").write_text("")
    with pytest.raises(DataError, match="holds no runs yet"):
        read_runs(tmp_path)


def test_artifacts_come_with_their_names_and_broken_ones_are_told(tmp_path: Path) -> None:
    records = [record(), record(seed=1), record(seed=2)]
    write_runs(tmp_path, records)
    write_artifacts(tmp_path, records[:2])
    broken = tmp_path / "artifacts" / f"{records[1]['run']}.npz"
    broken.write_bytes(broken.read_bytes()[:100])
    folder = read_runs(tmp_path)
    artifact, cut, absent = (folder.artifact(run) for run in folder.runs)
    assert artifact is not None
    assert artifact.class_name(1) == "cross"
    assert artifact.source_name(9) == "source 9"
    assert artifact.has("labels", "thumb_target")
    assert not artifact.has("labels", "unheard of")
    assert cut is None
    assert absent is None
    assert [problem.split(" ")[0] for problem in folder.problems] == [broken.name]


def test_artifacts_are_found_in_every_part_of_a_study(tmp_path: Path) -> None:
    parts = [tmp_path / "here", tmp_path / "there"]
    for number, part in enumerate(parts):
        (part / "artifacts").mkdir(parents=True)
        row = {"dataset": "d", "target": "t", "method": "vae", "accuracy": 0.5, "seed": number, "run": f"run{number}"}
        (part / "records.jsonl").write_text(json.dumps(row) + "\n")
        np.savez(part / "artifacts" / f"run{number}.npz", labels=np.array([number]))
    study = read_runs(*parts)
    found = [study.artifact(run) for run in study.runs]
    assert [artifact is not None and int(artifact["labels"][0]) for artifact in found] == [0, 1]


def test_the_weights_of_a_setup_are_shown_by_their_name() -> None:
    setup = Setup("pacs", "resnet18", "default", "", "features.weights=/home/me/w.safetensors features.epochs=3")
    assert setup.title == "pacs · resnet18 · default · features.weights=w.safetensors features.epochs=3"
    assert setup.slug == "pacs-resnet18-default-features-weights-w-safetensors-features"
    assert replace(setup, changes="features.weights=none").title.endswith("features.weights=none")


def test_a_pickle_among_the_arrays_is_never_loaded(tmp_path: Path) -> None:
    values = record()
    write_runs(tmp_path, [values])
    (tmp_path / "artifacts").mkdir()
    np.savez(tmp_path / "artifacts" / f"{values['run']}.npz", labels=np.array([{"a": 1}], dtype=object))
    folder = read_runs(tmp_path)
    assert folder.artifact(folder.runs[0]) is None
    assert "cannot be read" in folder.problems[0]


COMMITTED = Path(__file__).parents[2] / "study" / "records"


@pytest.mark.parametrize(
    ("name", "runs"),
    [
        ("before-pacs.jsonl.xz", 20),
        ("before-pacs-10-epochs.jsonl.xz", 84),
        ("before-digits-dg.jsonl.xz", 252),
        ("before-few-shot.jsonl.xz", 27),
        ("before-cost.jsonl.xz", 19),
    ],
)
def test_committed_records_are_read_as_they_lie(name: str, runs: int) -> None:
    folder = read_runs(COMMITTED / name)
    assert len(folder.runs) == runs
    assert all(run.ok and run.training_seconds and run.seconds_per_image and run.run for run in folder.runs)
    assert folder.missing == ()


def test_a_file_of_something_else_is_told() -> None:
    with pytest.raises(
        DataError, match=r"projection-defaults.jsonl.xz, line 1 is not a run record \(it has no dataset"
    ):
        read_runs(COMMITTED / "projection-defaults.jsonl.xz")
