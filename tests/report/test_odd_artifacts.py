"""Artifacts that were damaged or come from elsewhere: left out with a remark, never a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from made_up_runs import artifact_arrays, record, write_runs

from homefold.report.figures import build_figures
from homefold.report.runs import RunFolder, read_runs

ARRAYS = artifact_arrays("vae", "sketch", 0)


def folder_with(tmp_path: Path, **changed: np.ndarray) -> RunFolder:
    values = record()
    write_runs(tmp_path, [values])
    (tmp_path / "artifacts").mkdir()
    np.savez(tmp_path / "artifacts" / f"{values['run']}.npz", **{**ARRAYS, **changed})
    return read_runs(tmp_path)


@pytest.mark.parametrize(
    ("name", "values", "wrong"),
    [
        ("labels", ARRAYS["labels"][:40], "has the shape (40,), which does not fit"),
        ("labels", ARRAYS["labels"].astype(float), "is an array of float64 with 1 axes"),
        ("labels", ARRAYS["labels"] + 10**6, "points outside of the 4 classes"),
        ("predicted", ARRAYS["predicted"] - 5, "points outside of the 4 classes"),
        ("predicted", np.array(3), "is an array of int64 with 0 axes"),
        ("probabilities", ARRAYS["probabilities"][:, :2], "has the shape (80, 2)"),
        ("probabilities", np.full((80, 4), np.nan), "holds numbers that are not finite"),
        ("off_manifold", np.array(["far"] * 80), "is an array of <U3"),
        ("source_features", ARRAYS["source_features"][:60], "has the shape"),
        ("source_features", np.full((120, 8), np.inf), "holds numbers that are not finite"),
        ("source_domains", ARRAYS["source_domains"] + 3, "points outside of the 3 domains"),
        ("target_index", ARRAYS["target_index"] + 1, "points outside of the 80 images"),
        ("class_names", np.array("circle"), "is an array of <U6 with 0 axes"),
        ("thumb_target", ARRAYS["thumb_target"][..., :2], "has the shape"),
        ("thumb_target", ARRAYS["thumb_target"].astype(float), "is an array of float64"),
        ("thumb_source_before", ARRAYS["thumb_source_before"][:2], "has the shape"),
        ("curve_loss", ARRAYS["curve_loss"].reshape(-1), "is an array of float64 with 1 axes"),
        ("curve_elbow", ARRAYS["curve_elbow"][:1], "has the shape (1,)"),
    ],
)
def test_an_array_that_does_not_fit_is_named_and_its_run_left_out(
    tmp_path: Path, name: str, values: np.ndarray, wrong: str
) -> None:
    folder = folder_with(tmp_path, **{name: values})
    assert folder.artifact(folder.runs[0]) is None
    (problem,) = folder.problems
    assert wrong in problem
    assert not any(figure.name.startswith("confusion") for part in build_figures(folder) for figure in part.figures)


def test_arrays_that_fit_are_taken(tmp_path: Path) -> None:
    folder = folder_with(tmp_path, off_manifold=np.full(80, np.nan), surprise=np.array(["?"]))
    assert folder.artifact(folder.runs[0]) is not None
    assert folder.problems == []
