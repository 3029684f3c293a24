"""`homefold explore` as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_a_folder_is_written_once_and_replaced_when_asked(
    homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    words = ["explore", shared_model, "--data", shared_photos, "--export", tmp_path / "out"]
    told = homefold(*words)
    assert told.code == 0
    assert "index.html in a browser: 60 images" in told.out
    assert "--pictures puts them in" in told.err
    assert (tmp_path / "out" / "index.html").is_file()
    assert "add --overwrite" in homefold(*words).error
    assert homefold(*words, "--overwrite", "--pictures").code == 0
    assert len(list((tmp_path / "out" / "pictures").rglob("*.*"))) == 60


def test_images_of_another_kind_are_refused_before_anything_is_written(
    homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    only = tmp_path / "only"
    (only / "night").parent.mkdir()
    (only / "night").symlink_to(shared_photos / "night")
    told = homefold("explore", shared_model, "--data", only, "--export", tmp_path / "out")
    assert told.code == 1
    assert "give the folder that it was fitted on" in told.error
    assert not (tmp_path / "out").exists()
