"""`homefold evaluate`: the figures are those of the library, and say what the projection changed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scene import DOMAINS, Homefold, draw_bar

from homefold.data import load_dataset
from homefold.model import Homefold as Model

pytestmark = pytest.mark.slow

# A start at a random point and no step: every image is answered for alike, so the projection spoils a whole class.
BLIND = [
    "--search.no-encoder-start",
    "--search.random-starts",
    "1",
    "--search.steps",
    "0",
]


@pytest.fixture
def mislabelled(photos: Path) -> Path:
    """Six upright bars of the night stand under across."""
    for i in range(6):
        (photos / "night" / "upright" / f"{i:02d}.png").rename(photos / "night" / "across" / f"wrong{i}.png")
    return photos


def test_accuracies_are_those_of_the_library(homefold: Homefold, shared_model: Path, mislabelled: Path) -> None:
    ended = homefold("evaluate", shared_model, mislabelled, "--domain", "night", "--device", "cpu", "--json")
    assert ended.code == 0
    (row,) = ended.json["domains"]
    model = Model.load(shared_model, device="cpu")
    night = load_dataset(mislabelled, size=(32, 32), domains=["night"])
    assert row["accuracy_with_projection"] == model.score(night)
    assert row["accuracy_without_projection"] == model.score(night, projected=False)
    assert row["accuracy_without_projection"] == pytest.approx(14 / 20, abs=0.11)
    assert (row["domain"], row["images"], row["seen_in_training"]) == ("night", 20, False)
    assert "per_class" not in row


def test_corrected_and_spoiled_add_up_to_the_difference(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    rows = homefold("evaluate", shared_model, shared_photos, "--json", *BLIND).json["domains"]
    for row in rows:
        gained = row["accuracy_with_projection"] - row["accuracy_without_projection"]
        assert row["corrected"] - row["spoiled"] == pytest.approx(gained * row["images"])
    assert rows[0]["accuracy_without_projection"] > 0.9
    assert rows[0]["accuracy_with_projection"] == 0.5
    assert rows[0]["spoiled"] > rows[0]["corrected"]


def test_all_domains_are_measured_by_default_and_those_of_the_training_are_marked(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    ended = homefold("evaluate", shared_model, shared_photos)
    assert ended.code == 0
    rows = {line.split()[0]: line for line in ended.out.splitlines() if line.strip().startswith(tuple(DOMAINS))}
    assert list(rows) == ["day", "dusk", "night"]
    assert [("seen in training" in row) for row in rows.values()] == [True, True, False]
    assert "corrected" in ended.out
    assert "spoiled" in ended.out


@pytest.mark.slow
def test_domains_can_be_named_together_or_one_by_one(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    together = homefold("evaluate", shared_model, shared_photos, "--json", "--domain", "night", "day").json
    apart = homefold("evaluate", shared_model, shared_photos, "--json", "--domain", "night", "--domain", "day").json
    assert [row["domain"] for row in together["domains"]] == ["night", "day"]
    assert together == apart


@pytest.mark.slow
def test_per_class_figures_are_shown_on_request(homefold: Homefold, shared_model: Path, mislabelled: Path) -> None:
    arguments = ["evaluate", shared_model, mislabelled, "--domain", "night", "--per-class"]
    (row,) = homefold(*arguments, "--json").json["domains"]
    assert [row["per_class"][name]["images"] for name in ("across", "upright")] == [16, 4]
    for name in ("accuracy_with_projection", "accuracy_without_projection"):
        right = sum(figures["images"] * figures[name] for figures in row["per_class"].values())
        assert right / 20 == pytest.approx(row[name])
    assert row["per_class"]["across"]["accuracy_without_projection"] == pytest.approx(10 / 16, abs=0.13)
    shown = homefold(*arguments).out
    assert "without projection" in shown.split("class ")[1]


def test_a_domain_without_some_class_is_measured_by_name_with_a_note(
    homefold: Homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    for i in range(4):
        draw_bar(tmp_path / "few" / "later" / "upright" / f"{i}.png", "upright", 30, 220, i)
    ended = homefold("evaluate", shared_model, tmp_path / "few", "--json", "--per-class")
    (row,) = ended.json["domains"]
    assert list(row["per_class"]) == ["upright"]
    assert row["accuracy_without_projection"] == 1.0
    assert "later has no images of across" in ended.err
    assert "single-source" not in ended.err  # what one domain means to a fit is no matter here


def test_a_class_that_the_model_does_not_know_is_a_sentence(
    homefold: Homefold, shared_model: Path, photos: Path
) -> None:
    draw_bar(photos / "night" / "slanted" / "0.png", "upright", 30, 220, 0)
    ended = homefold("evaluate", shared_model, photos, "--domain", "night", "--json")
    assert (ended.code, ended.out) == (1, "")
    assert "has the class slanted, which the model does not know; it knows across, upright" in ended.error
    assert homefold("evaluate", shared_model, photos, "--domain", "day").code == 0


def test_an_unknown_domain_gets_the_closest_one(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    ended = homefold("evaluate", shared_model, shared_photos, "--domain", "nigth")
    assert ended.code == 1
    assert "it has day, dusk, night. Did you mean 'night'?" in ended.error


@pytest.mark.slow
def test_a_dataset_name_is_data_too(homefold: Homefold, shared_model: Path) -> None:
    ended = homefold("evaluate", shared_model, "digits-mini", "--domain", "scan")
    assert ended.code == 1
    assert "which the model does not know" in ended.error


def test_bad_images_are_counted_with_skip_bad(homefold: Homefold, shared_model: Path, photos: Path) -> None:
    bad = photos / "night" / "across" / "00.png"
    bad.write_bytes(b"")
    arguments = ["evaluate", shared_model, photos, "--domain", "night", "--json"]
    ended = homefold(*arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"{bad} is empty")
    ended = homefold(*arguments, "--skip-bad")
    (row,) = ended.json["domains"]
    assert (row["images"], row["skipped"]) == (19, 1)
    assert f"left out: {bad} is empty" in ended.err


@pytest.mark.slow
def test_balanced_accuracy_worst_class_and_calibration_are_those_of_the_answers(
    homefold: Homefold, shared_model: Path, mislabelled: Path
) -> None:
    ended = homefold("evaluate", shared_model, mislabelled, "--domain", "night", "--json", "--per-class", "--scores")
    (row,) = ended.json["domains"]
    model = Model.load(shared_model, device="cpu")
    night = load_dataset(mislabelled, size=(32, 32), domains=["night"])
    found = model.predict(night)
    right = found.labels == np.asarray(night.class_names)[night.labels]
    of_class = {name: right[night.labels == i].mean() for i, name in enumerate(night.class_names)}
    assert row["balanced_accuracy"] == pytest.approx(np.mean(list(of_class.values())))
    assert row["worst_class"] == min(of_class, key=of_class.__getitem__)
    assert row["worst_class_accuracy"] == pytest.approx(min(of_class.values()))
    pairs = [(a, b) for a in found.confidences[~right] for b in found.confidences[right]]
    expected = np.mean([1.0 if a < b else 0.5 if a == b else 0.0 for a, b in pairs])
    assert row["tells_errors"]["confidence"] == pytest.approx(expected)
    assert set(row["tells_errors"]) == {"confidence", "off_manifold", "energy", "nearest", "vim"}
    shown = homefold("evaluate", shared_model, mislabelled, "--scores").out
    assert "wrong answers told from right ones" in shown
    assert "Mean of domains" in shown
    assert f"worst {min(of_class, key=of_class.__getitem__)}" in shown
