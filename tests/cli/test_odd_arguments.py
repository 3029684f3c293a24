"""Arguments that make no sense: one sentence and the documented exit code, before any work, and nothing written."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from scene import Homefold, content

ODD = (
    "nowhere",
    "a.txt",
    "a.txt/below",
    "\udcff",
    "x" * 300,
    "~nobody-here/x",
    "loop",
    "-1",
    "[bold]",
    "{}",
    "%s",
    "*",
)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with a file and a link that leads back to itself."""
    (tmp_path / "a.txt").write_text("mine")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def everything(folder: Path) -> list[str]:
    return sorted(os.fsencode(path).hex() for path in folder.rglob("*"))


@pytest.mark.slow
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize(
    "command",
    [
        "info {}",
        "info {} --json",
        "predict {} a.txt",
        "evaluate {} a.txt",
        "fit {} --out model --preset small",
        "fit digits-mini --out model --preset small --holdout {}",
        "fit digits-mini --out model --preset small --backbone {}",
        "fit digits-mini --out model --preset default --weights {}",
        "fit digits-mini --out model --preset {}",
        "fit digits-mini --out model --preset small --device {}",
        "fit digits-mini --out model --epochs {}",
        "bench {} --out runs",
        "bench digits-mini --preset quick --out runs --data {} --plan",
        "bench digits-mini --preset quick --out runs --methods {}",
        "bench digits-mini --preset quick --out runs --targets {}",
        "bench digits-mini --preset quick --out runs --sources {}",
        "bench digits-mini --preset quick --out runs --seeds {}",
        "bench digits-mini --preset quick --out runs --first-seed {}",
        "bench digits-mini --preset quick --out runs --backbone {}",
        "bench digits-mini --preset quick --out runs --jobs {}",
        "bench digits-mini --preset quick --out runs --selection oracle --candidates {}",
        "bench digits-mini --preset quick --out runs --search {}",
        "bench digits-mini --preset quick --out runs --search-seed {}",
        "bench digits-mini --preset quick --out runs --set {}",
        "bench digits-mini --preset quick --out runs --plugin {}",
        "bench digits-mini --preset quick --out runs --device {}",
        "methods --plugin {}",
        "report {}",
        "report a.txt {} --out report",
        "data {}",
        "data describe {}",
        "data verify {}",
        "data verify pacs {}",
        "data verify {} empty",
        "data get {} --to there",
        "data cache --limit {}",
        "demo --target {}",
        "demo --device {}",
        "{}",
    ],
)
def test_what_makes_no_sense_is_a_sentence(homefold: Homefold, place: Path, command: str, odd: str) -> None:
    before = everything(place)
    ended = homefold(*(odd if word == "{}" else word for word in command.split()))
    assert ended.code in (1, 2)
    assert "Traceback" not in ended.err
    if command.startswith("data verify") and ended.code == 1:
        assert "error: " in ended.out + ended.err  # what is wrong with data is its result
    else:
        assert ended.out == ""
        assert ended.code == 2 or ended.error
    assert everything(place) == before


@pytest.mark.parametrize(
    ("arguments", "after"),
    [
        (["info", ""], "info got an empty value;"),
        (["predict", "model", ""], "predict got an empty value after model;"),
        (["predict", "model", "a.txt", "--out", ""], "predict got an empty value after --out;"),
        (["predict", "model", "a.txt", "--out="], "predict got an empty value for --out;"),
        (["evaluate", "model", ""], "evaluate got an empty value after model;"),
        (["fit", "", "--out", "model"], "fit got an empty value;"),
        (["fit", "digits-mini", "--out", ""], "fit got an empty value after --out;"),
        (["bench", "digits-mini", "--out", "runs", "--data", ""], "bench got an empty value after --data;"),
        (["bench", "digits-mini", "--out", ""], "bench got an empty value after --out;"),
        (["report", ""], "report got an empty value;"),
        (["report", "runs", "--out", ""], "report got an empty value after --out;"),
        (["data", "describe", ""], "data describe got an empty value;"),
        (["data", "get", "mnist", "--to", ""], "data get got an empty value after --to;"),
        (["demo", "--out", ""], "demo got an empty value after --out;"),
    ],
)
def test_an_empty_word_never_stands_for_the_current_folder(
    homefold: Homefold, place: Path, arguments: list[str], after: str
) -> None:
    before = everything(place)
    ended = homefold(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert ended.error == f"homefold {after} is a variable not set?"
    assert everything(place) == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["bench", "digits-mini", "--out", "a.txt"], "a.txt is a file; give --out a folder."),
        (["bench", "digits-mini", "--out", "runs", "--device", "meta"], "there is no device 'meta' to compute on"),
        (["bench", "digits-mini", "--out", "runs", "--seeds", "10001"], "seeds must be at most 10000; got 10001."),
        (["bench", "digits-mini", "--out", "runs", "--first-seed", str(2**63)], "first_seed must be at most "),
        (["fit", "digits-mini", "--preset", "small", "--out", "m\udcff"], "m\\udcff.unfinished has a name that is not"),
        (["bench", "digits-mini", "--preset", "quick", "--out", "r\udcff"], "r\\udcff/stages has a name that is not"),
        (["demo", "--out", "a.txt"], "a.txt exists and was not made by a demo; choose another folder."),
        (
            ["fit", "digits-mini", "--preset", "small", "--out", "model", "--tensorboard", "a.txt"],
            "--tensorboard a.txt cannot be made a folder (File exists).",
        ),
    ],
)
def test_what_could_not_be_done_is_told_before_any_work(
    homefold: Homefold, place: Path, arguments: list[str], sentence: str
) -> None:
    ended = homefold(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(sentence)
    assert "Features" not in ended.err
    assert content(place) == {"a.txt": b"mine"}


@pytest.mark.slow
def test_a_command_of_bytes_that_are_no_text_is_kept_escaped(
    homefold: Homefold, shared_photos: Path, tmp_path: Path
) -> None:
    photos = shutil.copytree(shared_photos, tmp_path / "ph\udcff")
    runs = tmp_path / "runs"
    quick = ["--preset", "quick", "--device", "cpu", "--seeds", "1", "--images-per-class", "4", "--methods", "nearest"]
    tiny = ["--targets", "night", "--set", "features.epochs=1", "features.feature_dim=16", "classifier.epochs=1"]
    assert homefold("bench", "digits-mini", "--data", photos, "--out", runs, *quick, *tiny).code == 0
    ended = homefold("report", runs, "--out", tmp_path / "rep\udcff", "--format", "csv", "--json")
    assert ended.json["facts"]["Data"] == "ph\\udcff"
    assert "ph\\udcff" in ended.json["facts"]["Command"]
    assert ended.json["facts"]["Report"].endswith("--format csv --json")
