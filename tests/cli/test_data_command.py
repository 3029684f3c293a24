"""`homefold data`: list, describe, verify."""

from __future__ import annotations

import shutil
from pathlib import Path

from scene import Homefold

from homefold.data import list_datasets


def test_list_names_every_dataset(homefold: Homefold) -> None:
    ended = homefold("data", "list", "--json")
    assert ended.code == 0
    names = [entry["name"] for entry in ended.json["datasets"]]
    assert names == [entry.name for entry in list_datasets()]
    assert "digits-mini" in names
    shown = homefold("data", "list").out
    assert all(name in shown for name in names)


def test_describe_counts_the_images_of_a_folder(homefold: Homefold, photos: Path) -> None:
    (photos / "night" / "upright" / "00.png").unlink()
    facts = homefold("data", "describe", photos, "--json").json
    assert facts["images"] == 59
    assert facts["classes"] == ["across", "upright"]
    assert facts["counts"]["night"] == {"across": 10, "upright": 9}
    assert facts["warnings"] == []
    row = next(line for line in homefold("data", "describe", photos).out.splitlines() if "night" in line)
    assert row.split() == ["night", "19", "2", "9", "(upright)", "10", "(across)"]


def test_describe_warns_on_standard_error(homefold: Homefold, photos: Path) -> None:
    shutil.rmtree(photos / "night" / "upright")
    ended = homefold("data", "describe", photos)
    assert ended.code == 0
    assert "warning: The class upright has no images in night" in ended.err
    (warning,) = homefold("data", "describe", photos, "--json").json["warnings"]
    assert warning.startswith("The class upright has no images in night")


def test_describe_tells_where_a_named_dataset_comes_from(homefold: Homefold) -> None:
    facts = homefold("data", "describe", "digits-mini", "--json").json
    assert facts["domains"] == ["scan", "photo", "print", "street"]
    assert {domain: sum(of_class.values()) for domain, of_class in facts["counts"].items()} == dict.fromkeys(
        facts["domains"], 870
    )
    shown = homefold("data", "describe", "digits-mini").out
    assert "Licence" in shown
    assert "street" in shown
    assert "<folder>/<domain>/<class>/<image>" in homefold("data", "describe", "folder").out


def test_describe_of_nothing_known_gets_the_closest_name(homefold: Homefold) -> None:
    ended = homefold("data", "describe", "digit-mini")
    assert ended.code == 1
    assert "Did you mean digits-mini?" in ended.error


def test_verify_passes_a_sound_folder(homefold: Homefold, shared_photos: Path) -> None:
    ended = homefold("data", "verify", shared_photos)
    assert ended.code == 0
    assert ended.out.splitlines()[-1].startswith(f"{shared_photos}: 60 images, ok")
    assert homefold("data", "verify", shared_photos, "--json").json["verdict"] == "ok"


def test_verify_passes_a_folder_with_warnings(homefold: Homefold, photos: Path) -> None:
    shutil.copy(photos / "day" / "across" / "00.png", photos / "night" / "across" / "copy.png")
    ended = homefold("data", "verify", photos, "--json")
    assert (ended.code, ended.json["verdict"]) == (0, "warnings")
    assert "leakage" in ended.json["warnings"][0]
    shown = homefold("data", "verify", photos).out
    assert f"warning: {ended.json['warnings'][0]}\n" in shown
    assert shown.endswith("61 images, usable, with warnings.\n")


def test_verify_fails_a_folder_with_a_bad_image(homefold: Homefold, photos: Path) -> None:
    bad = photos / "day" / "across" / "00.png"
    bad.write_bytes(b"")
    ended = homefold("data", "verify", photos, "--json")
    assert (ended.code, ended.json["verdict"]) == (1, "errors")
    assert ended.json["bad"] == [[str(bad), "is empty (0 bytes)"]]
    ended = homefold("data", "verify", photos)
    assert ended.code == 1
    assert f"error: 1 image cannot be decoded: {bad} is empty" in ended.out


def test_verify_fails_where_there_is_no_folder(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold("data", "verify", tmp_path / "none", "--json")
    assert ended.code == 1
    assert "There is no folder" in ended.json["errors"][0]


def test_an_embedded_dataset_has_nothing_to_verify(homefold: Homefold) -> None:
    ended = homefold("data", "verify", "digits-mini")
    assert ended.code == 1
    assert "is embedded" in ended.error
