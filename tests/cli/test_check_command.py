"""`homefold check` as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_an_unlabelled_folder_gets_an_estimate_a_page_and_json(
    homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    page = tmp_path / "check.html"
    told = homefold("check", shared_model, shared_photos / "night", "--html", page)
    assert told.code == 0
    assert "of these 20 answers are right" in told.out
    assert "Next:" in told.out
    assert "training images" in told.err
    assert "What to do next" in page.read_text()
    found = homefold("check", shared_model, shared_photos / "night", "--json").json
    assert 0 <= found["accuracy"]["low"] <= found["accuracy"]["estimate"] <= found["accuracy"]["high"] <= 1
    assert found["images"] == 20
    refused = homefold("check", shared_model, shared_photos / "night", "--html", page)
    assert "exists already" in refused.error
    assert homefold("check", shared_model, shared_photos / "night", "--html", page, "--overwrite").code == 0


def test_copies_are_named_where_the_training_images_are_given(
    homefold, shared_model: Path, shared_photos: Path
) -> None:
    found = homefold("check", shared_model, shared_photos / "day", "--data", shared_photos, "--json").json
    exact = [each for each in found["duplicates"] if each["exact"]]
    assert len(exact) == 20
    assert all(each["path"].endswith(each["source"]["path"][-20:]) for each in exact)
    assert found["next"][0].startswith("Remove the 20 images")


def test_an_unreadable_image_is_left_out_when_asked(homefold, shared_model: Path, photos: Path) -> None:
    (photos / "night" / "across" / "00.png").write_bytes(b"no image")
    assert homefold("check", shared_model, photos / "night").code == 1
    kept = homefold("check", shared_model, photos / "night", "--skip-bad", "--json")
    assert kept.json["images"] == 19
    assert "Left out 1 of 20" in kept.err
