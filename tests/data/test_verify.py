"""Looking a folder through before training on it."""

from __future__ import annotations

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from trees import numbered, png, verify_folder, write_folder, write_zip

from homefold.data import registry
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry
from homefold.data.verify import verify_dataset


def _noise(path: Path, seed: int, shape: tuple[int, int] = (6, 8)) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (*shape, 3), dtype=np.uint8)).save(path)
    return path


@pytest.fixture
def photos(tmp_path):
    seed = 0
    for domain in ("inside", "outside"):
        for name, count in (("cat", 3), ("dog", 2)):
            for i in range(count):
                seed += 1
                _noise(tmp_path / "photos" / domain / name / f"{i}.png", seed)
    return tmp_path / "photos"


def test_a_sound_folder_is_counted_and_called_ok(photos):
    report = verify_folder(photos)
    assert report.verdict == "ok"
    assert report.images == 10
    assert report.counts == {"inside": {"cat": 3, "dog": 2}, "outside": {"cat": 3, "dog": 2}}
    assert (report.bad, report.duplicates, report.errors, report.warnings) == ((), (), (), ())


def test_a_bad_image_is_an_error_that_names_it(photos):
    bad = photos / "inside" / "cat" / "9.png"
    bad.write_bytes(b"")
    report = verify_folder(photos)
    assert report.verdict == "errors"
    assert report.bad == ((str(bad), "is empty (0 bytes)"),)
    (sentence,) = report.errors
    assert sentence.startswith(f"1 image cannot be decoded: {bad} is empty (0 bytes).")
    assert report.images == 11
    assert report.counts["inside"]["cat"] == 4


def test_the_same_image_in_two_domains_is_warned_of_as_leakage(photos):
    original, copy = photos / "inside" / "cat" / "0.png", photos / "outside" / "cat" / "copy.png"
    shutil.copy(original, copy)
    report = verify_folder(photos)
    assert report.verdict == "warnings"
    (group,) = report.duplicates
    assert (group.paths, group.domains, group.classes) == (
        (str(original), str(copy)),
        ("inside", "outside"),
        ("cat",),
    )
    (sentence,) = report.warnings
    assert sentence.startswith("1 image in more than one domain")
    assert "leakage" in sentence
    assert f"{original} = {copy}" in sentence


def test_the_same_image_twice_in_one_place_is_a_warning(photos):
    shutil.copy(photos / "inside" / "cat" / "0.png", photos / "inside" / "cat" / "copy.png")
    report = verify_folder(photos)
    assert report.verdict == "warnings"
    (sentence,) = report.warnings
    assert "more than once in the same domain and class" in sentence
    assert "leakage" not in sentence


def test_the_same_image_under_two_labels_is_an_error(photos):
    shutil.copy(photos / "inside" / "cat" / "0.png", photos / "inside" / "dog" / "copy.png")
    report = verify_folder(photos)
    assert report.verdict == "errors"
    assert "more than one class" in report.errors[0]
    assert report.warnings == ()


def test_duplicates_are_told_by_their_pixels_and_not_by_their_file(photos):
    original = photos / "inside" / "cat" / "0.png"
    Image.open(original).save(photos / "inside" / "cat" / "other.bmp")
    assert len(verify_folder(photos).duplicates) == 1


def test_plain_images_of_different_shapes_are_not_duplicates(photos):
    for i, (height, width) in enumerate([(2, 8), (4, 4), (8, 2)]):
        Image.new("RGB", (width, height)).save(photos / "inside" / "cat" / f"plain{i}.png")
    assert verify_folder(photos).duplicates == ()


def test_many_duplicates_are_summed_up(photos):
    for i in range(8):
        _noise(photos / "inside" / "cat" / f"a{i}.png", 1000 + i)
        _noise(photos / "outside" / "cat" / f"b{i}.png", 1000 + i)
    report = verify_folder(photos)
    assert len(report.duplicates) == 8
    (sentence,) = report.warnings
    assert sentence.startswith("8 images ")
    assert "and 3 more" in sentence


def test_a_class_missing_from_a_domain_is_a_warning(photos):
    shutil.rmtree(photos / "outside" / "dog")
    report = verify_folder(photos)
    assert report.verdict == "warnings"
    assert report.counts["outside"] == {"cat": 3, "dog": 0}
    assert "The class dog has no images in outside" in report.warnings[0]


def test_a_folder_that_is_no_dataset_is_reported_and_not_raised(tmp_path):
    report = verify_folder(tmp_path / "gone")
    assert report.verdict == "errors"
    assert "There is no folder" in report.errors[0]
    assert report.images == 0


def test_only_the_domains_asked_for_are_looked_at(photos):
    (photos / "outside" / "cat" / "9.png").write_bytes(b"")
    assert verify_folder(photos, domains=["inside"]).counts == {"inside": {"cat": 3, "dog": 2}}
    assert verify_folder(photos, domains=["inside"]).bad == ()


def test_the_report_is_plain_json(photos):
    shutil.copy(photos / "inside" / "cat" / "0.png", photos / "outside" / "dog" / "copy.png")
    (photos / "inside" / "notes.txt").write_text("no image")
    report = json.loads(json.dumps(verify_folder(photos).as_dict()))
    assert report["verdict"] == "errors"
    assert report["ignored"] == 1
    assert report["duplicates"][0]["domains"] == ["inside", "outside"]
    assert report["counts"]["inside"] == {"cat": 3, "dog": 2}


TOY = [f"{domain}/{name}/{i}.png" for domain in ("inside", "outside") for name in ("cat", "dog") for i in range(2)]


@pytest.fixture
def toy(cache_dir):
    """A named dataset of which two images a class and domain were published."""
    layout = Layout("toy", domains={"inside": (), "outside": ()}, classes={"cat": (), "dog": ()})

    entry = DatasetEntry(
        "toy", "A toy.", "nowhere", "none", "<toy>", ("inside", "outside"), ("cat", "dog"),
        published={"inside": {"cat": 2, "dog": 2}, "outside": 4},
    )  # fmt: skip
    registry.register_dataset(entry)(partial(find_images_of, layout))
    yield
    registry._entries.remove("toy")


def test_a_named_dataset_as_published_is_ok(toy, tmp_path):
    report = verify_dataset("toy", write_zip(tmp_path / "toy.zip", numbered(TOY)))
    assert (report.verdict, report.images, report.decoded) == ("ok", 8, True)
    assert report.published == {"inside": 4, "outside": 4}
    assert report.counts == {"inside": {"cat": 2, "dog": 2}, "outside": {"cat": 2, "dog": 2}}


def test_counts_other_than_the_published_ones_are_errors(toy, tmp_path):
    files = numbered(TOY)
    del files["inside/dog/0.png"], files["outside/cat/1.png"]
    root = write_folder(tmp_path / "toy", files)
    report = verify_dataset("toy", root)
    (sentence,) = report.errors
    assert sentence.startswith("This is not toy as it was published: ")
    assert "inside has 1 images of dog, published are 2" in sentence
    assert "outside has 3 images, published are 4" in sentence
    assert verify_dataset("toy", root, decode=False).errors == report.errors


def test_a_missing_domain_is_an_error_unless_only_others_are_asked_for(toy, tmp_path):
    root = write_folder(tmp_path / "toy", numbered(TOY[:4]))
    assert "outside has 0 images" in verify_dataset("toy", root).errors[0]
    assert verify_dataset("toy", root, domains=["inside"]).verdict == "ok"


def test_counts_alone_decode_nothing(toy, tmp_path):
    root = write_folder(tmp_path / "toy", dict.fromkeys(TOY, b"no image"))
    report = verify_dataset("toy", root, decode=False)
    assert (report.verdict, report.decoded) == ("ok", False)
    assert len(verify_dataset("toy", root).bad) == 8


def test_the_same_image_in_two_archives_is_leakage(toy, tmp_path):
    files = numbered(TOY)
    write_zip(tmp_path / "toy" / "inside.zip", {name: files[name] for name in TOY[:4]})
    write_zip(tmp_path / "toy" / "outside.zip", {**{name: files[name] for name in TOY[4:]}, TOY[4]: files[TOY[0]]})
    report = verify_dataset("toy", tmp_path / "toy")
    assert report.verdict == "warnings"
    assert "leakage" in report.warnings[0]


def test_twins_under_two_labels_that_were_published_so_are_only_warned_of(toy, tmp_path):
    files = {**numbered(TOY), "inside/dog/0.png": png(0)}
    report = verify_dataset("toy", write_folder(tmp_path / "toy", files))
    assert report.verdict == "warnings"
    assert "more than one class" in report.warnings[0]
    del files["outside/cat/0.png"]
    (tmp_path / "toy" / "outside" / "cat" / "0.png").unlink()
    assert any("more than one class" in text for text in verify_dataset("toy", tmp_path / "toy").errors)


def test_real_pacs_photos_are_all_readable_and_as_published(real_data):
    report = verify_dataset("pacs", real_data / "pacs", domains=["photo"])
    assert (report.images, report.bad, report.errors) == (1670, (), ())


def test_real_digits_dg_has_600_images_in_every_cell(real_data):
    report = verify_dataset("digits-dg", real_data / "digits" / "digits_dg.zip", decode=False)
    assert (report.images, report.verdict) == (24_000, "ok")
    assert {count for of_class in report.counts.values() for count in of_class.values()} == {600}
