"""`predict --adapt` and `evaluate --adapt`: a memory on request, which its answers tell, the same to the bit."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest
from scene import Homefold

from homefold.cli import predict
from homefold.cli.answers import ADAPTED
from homefold.data import load_dataset
from homefold.model import Homefold as Model

pytestmark = pytest.mark.slow


def test_json_lines_hold_the_memorys_answers_and_say_so(
    homefold: Homefold, shared_model: Path, shared_photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["predict", shared_model, shared_photos / "night", "--device", "cpu", "--json", "--adapt"]
    ended = homefold(*words)
    expected = Model.load(shared_model, device="cpu").predict(shared_photos / "night", adapt=True)
    for line, prediction in zip(ended.json_lines, expected, strict=True):
        assert {name: value for name, value in line.items() if name != "abstained"} == prediction.as_dict()
        assert line["adapted"] is True
    monkeypatch.setattr(predict, "_IMAGES_AT_ONCE", 3)
    assert homefold(*words).out == ended.out


def test_csv_has_a_column_and_the_table_a_line_where_it_was_asked_for(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    words = ["predict", shared_model, shared_photos / "night"]
    rows = list(csv.DictReader(io.StringIO(homefold(*words, "--csv", "--adapt").out)))
    lines = homefold(*words, "--json", "--adapt").json_lines
    assert [row["adapted"] for row in rows] == ["true"] * 20
    assert [float(row["probability.across"]) for row in rows] == [line["probabilities"]["across"] for line in lines]
    assert homefold(*words, "--adapt").out.splitlines()[0] == ADAPTED
    for form in ([], ["--csv"], ["--json"]):
        assert "adapt" not in homefold(*words, *form).out


def test_bad_images_stand_among_the_answers_and_without_skip_bad_end_it(
    homefold: Homefold, shared_model: Path, photos: Path
) -> None:
    (photos / "night" / "across" / "03.png").write_bytes(b"no image")
    words = ["predict", shared_model, photos / "night", "--json", "--adapt"]
    lines = homefold(*words, "--skip-bad").json_lines
    assert ["error" in line for line in lines] == [position == 3 for position in range(20)]
    ended = homefold(*words)
    assert (ended.code, ended.out) == (1, "")
    assert "03.png" in ended.error


def test_where_no_image_can_be_read_every_row_says_why(homefold: Homefold, shared_model: Path, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        (tmp_path / name).write_bytes(b"no image")
    lines = homefold("predict", shared_model, tmp_path, "--json", "--adapt", "--skip-bad").json_lines
    assert ["error" in line for line in lines] == [True, True]


def test_a_domain_of_one_image_has_no_memory(homefold: Homefold, shared_model: Path, photos: Path) -> None:
    one = sorted((photos / "night" / "across").iterdir())[0]
    (photos / "one" / "across").mkdir(parents=True)
    one.rename(photos / "one" / "across" / one.name)
    found = homefold("evaluate", shared_model, photos, "--adapt", "--json").json
    memory = {domain["domain"]: domain["accuracy_with_memory"] for domain in found["domains"]}
    assert memory["one"] is None
    assert memory["night"] is not None
    assert "one" in homefold("evaluate", shared_model, photos, "--adapt", "--per-class").out


@pytest.mark.parametrize(
    ("images", "more", "code", "expected"),
    [
        ("night/across/03.png", [], 1, "a memory answers by the images before, and there is one image"),
        ("night", ["--explain"], 2, "--explain says why an image is answered by itself; leave out --adapt."),
        ("night", ["--out", "answers/"], 2, "Shards are answered in any order, and --adapt needs one"),
    ],
)
def test_where_it_makes_no_sense_a_sentence_says_why(
    homefold: Homefold, shared_model: Path, shared_photos: Path, images: str, more: list[str], code: int, expected: str
) -> None:
    ended = homefold("predict", shared_model, shared_photos / images, "--adapt", *more)
    assert ended.code == code
    assert expected in ended.error


@pytest.mark.parametrize("command", ["serve", "export"])
def test_what_answers_each_image_alone_has_no_such_flag(homefold: Homefold, shared_model: Path, command: str) -> None:
    ended = homefold(command, shared_model, "--adapt")
    assert ended.code == 2
    assert f"homefold {command} has no flag --adapt" in ended.error


def test_evaluate_measures_with_a_memory_and_without(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    words = ["evaluate", shared_model, shared_photos, "--device", "cpu", "--per-class"]
    plain, found = homefold(*words, "--json").json, homefold(*words, "--json", "--adapt").json
    assert found["with_memory"] == ADAPTED
    model = Model.load(shared_model, device="cpu")
    for row, before in zip(found["domains"], plain["domains"], strict=True):
        images = load_dataset(shared_photos, size=(32, 32), domains=[row["domain"]])
        right = model.predict(images, adapt=True).labels == [images.class_names[label] for label in images.labels]
        assert row.pop("accuracy_with_memory") == right.mean()
        classes = [figures.pop("accuracy_with_memory") for figures in row["per_class"].values()]
        assert sum(classes) / len(classes) == pytest.approx(right.mean())
        assert row == before
    table = homefold(*words, "--adapt").out
    assert "with projection   with memory" in table
    assert "With memory: each answer depends on the images before it (--adapt)" in table
    assert "memory" not in homefold(*words).out
