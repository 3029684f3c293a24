"""Tables, tars of samples and patterns wherever a command takes a folder of domains."""

from __future__ import annotations

import csv
import json
import shutil
import tarfile
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scene import QUICK, Homefold

import homefold as package


def cells(photos: Path) -> list[tuple[str, str, str]]:
    """Path, label and domain of each image."""
    found = sorted(photos.rglob("*.png"))
    return [(str(path.relative_to(photos.parent)), path.parts[-2], path.parts[-3]) for path in found]


@pytest.fixture
def listed(photos: Path) -> Path:
    path = photos.parent / "photos.csv"
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "domain"), *cells(photos)])
    return path


@pytest.fixture
def stored(photos: Path) -> Path:
    rows = cells(photos)
    columns = {
        "image": [{"bytes": (photos.parent / path).read_bytes(), "path": path} for path, _, _ in rows],
        "label": [label for _, label, _ in rows],
        "domain": [domain for _, _, domain in rows],
    }
    pq.write_table(pa.table(columns), photos.parent / "photos.parquet", row_group_size=7)
    return photos.parent / "photos.parquet"


@pytest.fixture
def samples(photos: Path) -> Path:
    out = photos.parent / "photos.tar"
    with tarfile.open(out, "w") as archive:
        for i, (path, label, domain) in enumerate(cells(photos)):
            facts = photos.parent / f"{i:03}.json"
            facts.write_text(json.dumps({"label": label, "domain": domain}))
            archive.add(facts, facts.name)
            archive.add(photos.parent / path, f"{i:03}.png")
    return out


@pytest.mark.slow
@pytest.mark.parametrize("form", ["listed", "stored", "samples"])
def test_a_model_goes_through_every_command_in_this_form(
    homefold: Homefold, request: pytest.FixtureRequest, shared_model: Path, photos: Path, tmp_path: Path, form: str
) -> None:
    data = request.getfixturevalue(form)
    facts, of_folder = (homefold("data", "describe", place, "--json").json for place in (data, photos))
    assert facts["counts"] == of_folder["counts"]
    assert homefold("data", "verify", data).code == 0
    ended = homefold("fit", data, "--out", tmp_path / "model", "--holdout", "night", "--json", *QUICK)
    assert ended.code == 0, ended.err
    assert ended.json["source_domains"] == ["day", "dusk"]
    # The same images in the same order: the same model.
    for tensors in (tmp_path / "model").glob("*.safetensors"):
        assert tensors.read_bytes() == (shared_model / tensors.name).read_bytes()
    answers = homefold("predict", tmp_path / "model", data, "--json").json_lines
    assert [answer["label"] for answer in answers] == [
        answer["label"] for answer in homefold("predict", shared_model, photos, "--json").json_lines
    ]
    measured = [homefold("evaluate", shared_model, place, "--domain", "night", "--json") for place in (data, photos)]
    figures = [
        {name: value for name, value in ended.json["domains"][0].items() if name != "seconds"} for ended in measured
    ]
    assert figures[0] == figures[1]


@pytest.mark.slow
def test_bench_takes_a_manifest(homefold: Homefold, listed: Path, tmp_path: Path) -> None:
    quick = ["--preset", "quick", "--device", "cpu", "--seeds", "1", "--images-per-class", "6"]
    ended = homefold(
        "bench",
        "single-source",
        "--data",
        listed,
        *quick,
        "--methods",
        "deep-all",
        "--plan",
        "--json",
        "--out",
        tmp_path / "runs",
    )
    assert ended.code == 0, ended.err
    assert ended.json["dataset"] == "photos"


@pytest.mark.slow
def test_a_pattern_tells_the_domains_to_every_command(
    homefold: Homefold, photos: Path, shared_model: Path, tmp_path: Path
) -> None:
    flat = tmp_path / "flat"
    flat.mkdir()
    for path, label, domain in cells(photos):
        shutil.copy(photos.parent / path, flat / f"{domain}-{label}-{Path(path).name}")
    pattern = ["--domain-from", "{domain}-{label}-*"]
    assert homefold("data", "describe", flat, *pattern, "--json").json["domains"] == ["day", "dusk", "night"]
    assert homefold("data", "verify", flat, *pattern).code == 0
    assert homefold("fit", flat, *pattern, "--holdout", "night", "--out", tmp_path / "m", *QUICK).code == 0
    ended = homefold("evaluate", shared_model, flat, *pattern, "--domain", "night", "--json")
    assert ended.code == 0, ended.err
    plan = homefold(
        "bench",
        "single-source",
        "--data",
        flat,
        *pattern,
        "--plan",
        "--json",
        "--preset",
        "quick",
        "--out",
        tmp_path / "runs",
    )
    assert plan.code == 0, plan.err


def test_a_bad_row_is_one_sentence(homefold: Homefold, listed: Path, tmp_path: Path) -> None:
    listed.write_text(listed.read_text().replace("day/across/00.png", "day/across/none.png"))
    ended = homefold("fit", listed, "--out", tmp_path / "m", *QUICK)
    assert ended.code == 1
    assert "1 row of" in ended.error
    assert "line 2: there is no file" in ended.error
    assert homefold("data", "verify", listed, "--json").json["bad"][0][1] == "does not exist"


def test_answers_are_not_written_over_the_list_of_images(homefold: Homefold, listed: Path, shared_model: Path) -> None:
    ended = homefold("predict", shared_model, listed, "--out", listed, "--overwrite")
    assert ended.code == 1
    assert "lists the images to answer for" in ended.error


@pytest.mark.slow
def test_answers_for_stored_images_name_their_rows(homefold: Homefold, stored: Path, shared_model: Path) -> None:
    answers = homefold("predict", shared_model, stored, "--json").json_lines
    assert [answer["path"] for answer in answers] == [f"{stored}[{i}]" for i in range(60)]


def test_data_that_is_not_there(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold("data", "describe", tmp_path / "list.csv")
    assert ended.code == 1
    assert "There is no file" in ended.error


@pytest.mark.slow
def test_a_data_frame_fits_answers_and_scores(photos: Path, shared_model: Path, tmp_path: Path) -> None:
    model = package.Homefold.load(shared_model, device="cpu")
    frame = pd.DataFrame(
        [(photos.parent / path, label, domain) for path, label, domain in cells(photos)],
        columns=["path", "label", "domain"],
    )
    answers, of_folder = model.predict(frame), model.predict(photos)
    np.testing.assert_array_equal(answers.probabilities, of_folder.probabilities)
    assert answers.paths == of_folder.paths
    assert model.score(frame) == model.score(photos)
    again = package.Homefold(model.config, device="cpu").fit(frame, holdout="night")
    assert again.source_domains == ("day", "dusk")
    assert again.predict(photos).probabilities.tobytes() == of_folder.probabilities.tobytes()
