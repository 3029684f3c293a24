"""The explorer as a folder: what it holds, what it leaves out, what it does not overwrite."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from homefold import Homefold
from homefold.errors import ConfigError
from homefold.runtime.progress import SilentReporter
from homefold.serving.explorer import Explorer, Gallery
from homefold.serving.explorer.explanation import explain
from homefold.serving.explorer.explorer import COLUMNS
from homefold.serving.standalone import folder as module
from homefold.serving.standalone import write_standalone

pytestmark = pytest.mark.slow

Writing = Callable[..., Path]


@pytest.fixture(scope="module")
def writing(fitted: Homefold, gallery: Gallery) -> Writing:
    def write(folder: Path, *, pictures: bool = False, overwrite: bool = False, model: Any = fitted) -> Path:
        explorer = Explorer(gallery, "for a folder")
        asked = {"pictures": pictures, "overwrite": overwrite, "reporter": SilentReporter()}
        return write_standalone(model, "digits", explorer, folder, **asked).folder

    return write


@pytest.fixture(scope="module")
def written(writing: Writing, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return writing(tmp_path_factory.mktemp("explorer") / "out", pictures=True)


def script(file: Path) -> Any:
    """The value that a script of the folder assigns."""
    return json.loads(file.read_text(encoding="utf-8").partition(" = ")[2].rstrip().removesuffix(";"))


def test_its_points_and_its_table_tell_what_predict_tells(written: Path, gallery: Gallery, fitted: Homefold) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    answers = fitted.predict(gallery.dataset, compare=True)
    points = np.frombuffer(base64.b64decode(script(written / "data/points.js")["points"]), "<f4")
    columns = dict(zip(COLUMNS, points.reshape(len(COLUMNS), -1), strict=True))
    np.testing.assert_array_equal(columns["label"], answers.indices)
    table = parquet.read_table(written / "points.parquet").to_pydict()
    assert table["prediction"] == answers.labels.tolist()
    assert table["label"] == [gallery.classes[truth] for truth in gallery.truth]
    assert table["domain"] == [gallery.dataset.domain_names[domain] for domain in gallery.dataset.domains]
    assert table["right"] == [
        answer == label for answer, label in zip(table["prediction"], table["label"], strict=True)
    ]
    np.testing.assert_array_equal(table["x"], columns["x"])
    np.testing.assert_allclose(table["off_manifold"], answers.off_manifold, rtol=1e-6)


def test_its_reasons_are_those_of_each_image_alone_in_fewer_digits(
    written: Path, gallery: Gallery, fitted: Homefold
) -> None:
    surveyed = Explorer(gallery, "for a folder")
    assert len(script(written / "data/why-0.js")) == 256
    told = script(written / "data/why-1.js")
    assert len(told) == len(gallery) - 256
    (alone,) = explain(fitted.trained, np.asarray(gallery.dataset.images[260:261]), surveyed.surveyed)
    assert told[4]["answer"]["label"] == alone["answer"]["label"]
    assert told[4]["curve"]["losses"] == pytest.approx(alone["curve"]["losses"], rel=1e-4)
    assert told[4]["with_projection"]["probabilities"] == pytest.approx(
        alone["with_projection"]["probabilities"], rel=1e-4
    )


def test_pictures_are_there_only_where_they_were_asked_for(
    written: Path, writing: Writing, gallery: Gallery, tmp_path: Path
) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    pixels = np.asarray(Image.open(written / "pictures/1/258.png"))
    np.testing.assert_array_equal(pixels, gallery.dataset.images[258])
    image = parquet.read_table(written / "points.parquet")["image"][258].as_py()
    assert image == {"bytes": (written / "pictures/1/258.png").read_bytes(), "path": "258.png"}
    bare = writing(tmp_path / "bare")
    assert not (bare / "pictures").exists()
    assert "image" not in parquet.read_schema(bare / "points.parquet").names


def test_no_path_of_an_image_is_in_it(written: Path) -> None:
    content = b"".join(file.read_bytes() for file in written.rglob("*") if file.is_file())
    assert b"/home/somebody" not in content


def test_an_earlier_export_is_replaced_only_where_that_was_asked_for(writing: Writing, tmp_path: Path) -> None:
    folder = writing(tmp_path / "out")
    (folder / "data" / "old.js").write_text("")
    with pytest.raises(ConfigError, match="add --overwrite"):
        writing(folder)
    assert (folder / "data" / "old.js").exists()
    writing(folder, overwrite=True)
    assert not (folder / "data" / "old.js").exists()


def test_a_folder_of_somebody_else_is_left_alone(writing: Writing, tmp_path: Path) -> None:
    folder = writing(tmp_path / "out")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="choose another folder"):
        writing(folder, overwrite=True)
    assert (folder / "notes.txt").read_text() == "mine"


def test_what_fails_leaves_nothing(writing: Writing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "usual_scores", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        writing(tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
