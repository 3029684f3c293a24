"""`homefold predict --explain` as a person uses it."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

pytestmark = pytest.mark.slow

NIGHT = Path("night") / "across" / "00.png"


def test_both_answers_and_the_nearest_source_images_are_printed(
    homefold, shared_model: Path, shared_photos: Path
) -> None:
    path = shared_photos / NIGHT
    plain, found = (
        homefold("predict", shared_model, path, *words).json_lines[0] for words in (["--json"], ["--explain", "--json"])
    )
    used = found[found["used"]]
    assert (found["label"], used["probabilities"]) == (plain["label"], plain["probabilities"])
    assert {image["domain"] for image in found["nearest_before"]} <= {"day", "dusk"}
    assert "path" not in found["nearest_before"][0]
    told = homefold("predict", shared_model, path, "--explain")
    assert told.code == 0
    assert "without projection" in told.out
    assert "nearest after:" in told.out


def test_with_the_source_images_their_files_are_named_and_drawn(
    homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    path, picture = shared_photos / "day" / "upright" / "03.png", tmp_path / "why.png"
    words = ["--explain", "--data", shared_photos, "--explain-png", picture, "--json"]
    (found,) = homefold("predict", shared_model, path, *words).json_lines
    assert found["nearest_before"][0]["path"].endswith("day/upright/03.png")
    assert found["compared_with"] == 40
    assert Image.open(picture).width > 800


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--explain-png", "why.png"], "--explain-png goes with --explain."),
        (["--explain", "--csv"], "leave out --csv"),
        (["--explain", "--no-projection"], "leave out --no-projection"),
        (["--explain", "--abstain-above", "1"], "leave out --abstain-above"),
        (["--explain", "--explain-png", "why.png"], "draws one image; 20 were given"),
    ],
)
def test_what_does_not_go_together_is_refused(homefold, shared_model: Path, shared_photos: Path, words, said) -> None:
    ended = homefold("predict", shared_model, shared_photos / "night", *words)
    assert ended.code != 0
    assert said in ended.error


def test_an_unreadable_image_is_left_out_when_asked(homefold, shared_model: Path, photos: Path) -> None:
    (photos / "night" / "across" / "00.png").write_bytes(b"no image")
    folder = photos / "night" / "across"
    refused = homefold("predict", shared_model, folder, "--explain")
    assert refused.code == 1
    kept = homefold("predict", shared_model, folder, "--explain", "--skip-bad", "--json")
    assert (kept.code, len(kept.json_lines)) == (0, 9)
    assert "left out" in kept.err
