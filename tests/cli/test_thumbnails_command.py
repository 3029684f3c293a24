"""Models that keep thumbnails, from `homefold fit` to what shows them."""

from __future__ import annotations

from pathlib import Path

import pytest
from scene import QUICK, Homefold

from homefold.cli import main
from homefold.model import Homefold as Model

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def keeping_model(shared_photos: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("keeping") / "model"
    words = ["fit", str(shared_photos), "--out", str(out), "--holdout", "night", "--keep-thumbnails", *QUICK]
    assert main(words) == 0
    return out


def test_nothing_else_of_the_model_changes(keeping_model: Path, shared_model: Path, shared_photos: Path) -> None:
    there = {file.name for file in keeping_model.iterdir()} - {"thumbnails.safetensors"}
    assert there == {file.name for file in shared_model.iterdir()}
    for name in there - {"model.json", "README.md"}:
        assert (keeping_model / name).read_bytes() == (shared_model / name).read_bytes()
    night = shared_photos / "night"
    answers = [Model.load(path, device="cpu").predict(night).probabilities for path in (keeping_model, shared_model)]
    assert answers[0].tobytes() == answers[1].tobytes()


def test_people_are_told_what_is_kept(homefold: Homefold, keeping_model: Path, shared_model: Path) -> None:
    told = "36 training images of 32 × 32 px are kept in the model (0.1 MB)"
    (line,) = [line for line in homefold("info", keeping_model).out.splitlines() if "Thumbnails" in line]
    assert line.split(maxsplit=1)[1].rstrip() == told
    assert f"- Thumbnails: {told}. Whoever has this folder sees them." in (keeping_model / "README.md").read_text()
    assert "humbnails" not in homefold("info", shared_model).out


def test_the_explorer_needs_no_data_then(homefold: Homefold, keeping_model: Path, tmp_path: Path) -> None:
    ended = homefold("explore", keeping_model, "--export", tmp_path / "out", "--pictures")
    assert ended.code == 0
    assert "36 images" in ended.out
    assert "Shown are the 36 thumbnails that the model keeps; --data FOLDER shows the images themselves." in ended.err
    assert len(list((tmp_path / "out" / "pictures").rglob("*.png"))) == 36


def test_a_model_without_them_needs_data(homefold: Homefold, shared_model: Path, tmp_path: Path) -> None:
    ended = homefold("explore", shared_model, "--export", tmp_path / "out")
    assert ended.code == 1
    assert "keeps no thumbnails, so homefold explore needs --data FOLDER" in ended.error
    assert not (tmp_path / "out").exists()
