"""`homefold data`: list, describe, verify."""

from __future__ import annotations

import re
import shutil
import tarfile
from pathlib import Path

import pytest
from scene import QUICK, Homefold, draw_bar

from homefold.data import list_datasets, load_dataset
from homefold.data.datasets.pacs import PACS_CLASSES


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


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_a_packed_folder_is_described_verified_and_fitted_to_as_it_is(
    homefold: Homefold, photos: Path, tmp_path: Path, kind: str
) -> None:
    packed = shutil.make_archive(str(tmp_path / "packed"), kind, photos.parent, photos.name)
    facts, of_folder = (homefold("data", "describe", data, "--json").json for data in (packed, photos))
    assert facts["counts"] == of_folder["counts"]
    assert "Splits" in homefold("data", "describe", packed).out
    assert homefold("data", "verify", packed).code == 0
    ended = homefold("fit", packed, "--out", tmp_path / "m", "--holdout", "night", "--json", *QUICK)
    assert ended.code == 0, ended.err
    assert homefold("info", tmp_path / "m", "--json").json["source_domains"] == ["day", "dusk"]
    assert homefold("evaluate", tmp_path / "m", packed, "--domain", "night", "--json").code == 0


@pytest.mark.slow
def test_a_cut_tar_is_refused_by_every_command(
    homefold: Homefold, photos: Path, shared_model: Path, tmp_path: Path
) -> None:
    packed = Path(shutil.make_archive(str(tmp_path / "packed"), "tar", photos))
    with tarfile.open(packed) as archive:
        half = next(member.offset for member in archive if member.name.startswith("./night"))
    packed.write_bytes(packed.read_bytes()[:half])
    before = set(tmp_path.iterdir())
    said = f"{packed} cannot be read as an uncompressed tar (it ends without the empty block"
    for words in (
        ["fit", packed, "--out", tmp_path / "m", *QUICK],
        ["evaluate", shared_model, packed],
        ["bench", "single-source", "--data", packed, "--preset", "quick", "--out", tmp_path / "runs"],
        ["data", "describe", packed],
    ):
        ended = homefold(*words)
        assert ended.code == 1
        assert ended.error.startswith(said)
    ended = homefold("data", "verify", packed)
    assert ended.code == 1
    assert f"error: {said}" in ended.out
    assert set(tmp_path.iterdir()) == before


def test_describe_shows_official_splits(homefold: Homefold, tmp_path: Path) -> None:
    root = _pacs(tmp_path)
    for image in root.rglob("*.png"):
        domain, name = image.parts[-3:-1]
        for kind, listed in (("train", True), ("crossval", False)):
            with (root / f"{domain}_{kind}_kfold.txt").open("a") as file:
                file.write(f"{domain}/{name}/{image.stem}.jpg {PACS_CLASSES.index(name) + 1}\n" if listed else "")
    assert "Splits       train 28" in homefold("data", "describe", f"pacs:{root}").out


def test_describe_warns_on_standard_error(homefold: Homefold, photos: Path) -> None:
    shutil.rmtree(photos / "night" / "upright")
    ended = homefold("data", "describe", photos)
    assert ended.code == 0
    assert "warning: The class upright has no images in night" in ended.err
    (warning,) = homefold("data", "describe", photos, "--json").json["warnings"]
    assert warning.startswith("The class upright has no images in night")


@pytest.mark.slow
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


def test_list_says_where_each_comes_from_its_licence_and_layout(homefold: Homefold) -> None:
    shown = homefold("data", "list").out
    for entry in list_datasets():
        assert all(text.split()[0] in shown for text in (entry.source, entry.licence, entry.layout))
    assert "DomainBed's download script" in shown
    assert "_kfold.txt" in shown


def _pacs(root: Path) -> Path:
    for d, domain in enumerate(("art_painting", "cartoon", "photo", "sketch")):
        for c, name in enumerate(("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")):
            draw_bar(root / domain / name / "pic_0.png", "across", 200, 10, seed=10 * d + c)
    return root


def test_verify_compares_a_named_dataset_with_what_was_published(homefold: Homefold, tmp_path: Path) -> None:
    root = _pacs(tmp_path / "pacs")
    ended = homefold("data", "verify", "pacs", root)
    assert ended.code == 1
    row = next(line for line in ended.out.splitlines() if "sketch" in line)
    assert row.split() == ["sketch", "7", "3929", "7"]
    assert "art_painting has 1 images of dog, published are 379" in ended.out
    assert ended.out.endswith("28 images, not usable as it is.\n")
    same = homefold("data", "verify", f"pacs:{root}", "--domain", "photo", "--counts-only", "--json")
    assert (same.code, same.json["published"], same.json["decoded"]) == (1, {"photo": 1670}, False)


def test_verify_says_where_classes_could_not_be_compared(homefold: Homefold, tmp_path: Path) -> None:
    for domain in ("Caltech101", "LabelMe", "VOC2007", "SUN09"):
        for name in ("bird", "car", "chair", "dog"):
            draw_bar(tmp_path / "v" / domain / name / "0.png", "upright", 200, 10, seed=0)
    shown = homefold("data", "verify", "vlcs", tmp_path / "v", "--counts-only").out
    assert "those of each class were not compared" in shown
    assert f"caltech of vlcs in {tmp_path}/v has no images of person." in shown
    assert "not compared" not in homefold("data", "verify", "pacs", _pacs(tmp_path / "p"), "--counts-only").out


def test_verify_asks_for_what_is_missing_from_its_words(
    homefold: Homefold, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "say where the files of pacs lie" in homefold("data", "verify", "pacs").error
    monkeypatch.chdir(photos.rename(photos.with_name("pacs")).parent)
    asked = homefold("data", "verify", "pacs").error
    assert "say where the files of pacs lie (here perhaps ./pacs): homefold data verify pacs PATH" in asked
    photos = Path("pacs").rename(photos)
    assert "takes a PATH, or a NAME and a PATH" in homefold("data", "verify", "a", "b", "c").error
    assert "leave out --counts-only" in homefold("data", "verify", photos, "--counts-only").error
    assert "no dataset 'pasc'" in homefold("data", "verify", "pasc", photos).error


def test_describe_counts_the_images_of_a_named_dataset(homefold: Homefold, tmp_path: Path) -> None:
    facts = homefold("data", "describe", f"pacs:{_pacs(tmp_path)}", "--json").json
    assert facts["images"] == 28
    assert facts["counts"]["photo"]["house"] == 1
    assert facts["splits"] == {}


@pytest.mark.slow
def test_a_named_dataset_with_its_path_can_be_fitted_to_with_a_domain_held_out(
    homefold: Homefold, tmp_path: Path
) -> None:
    root = _pacs(tmp_path / "pacs")
    for path in (root / "sketch").rglob("*.png"):
        path.write_bytes(b"decoding this would fail")
    for path in list(root.rglob("pic_0.png")):
        shutil.copy(path, path.with_name("pic_1.png"))
    ended = homefold("fit", f"pacs:{root}", "--out", tmp_path / "m", "--holdout", "sketch", "--json", *QUICK)
    assert ended.code == 0, ended.err
    assert homefold("info", tmp_path / "m", "--json").json["source_domains"] == ["art_painting", "cartoon", "photo"]


def test_the_cache_is_shown_limited_and_cleared(
    homefold: Homefold, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOMEFOLD_CACHE", str(tmp_path / "cache"))
    assert homefold("data", "cache", "--json").json["entries"] == []
    for domain in ("day", "dusk"):
        load_dataset(photos, size=(16, 16), domains=[domain])
    facts = homefold("data", "cache", "--json").json
    assert [entry["domains"] for entry in facts["entries"]] == [["dusk"], ["day"]]
    assert (facts["entries"][0]["images"], facts["limit_bytes"]) == (20, 50_000_000_000)
    shown = homefold("data", "cache").out
    assert "photos" in shown
    assert shown.endswith("of at most 50.0 GB.\n")
    ended = homefold("data", "cache", "--limit", "20kB", "--json")
    assert [entry["domains"] for entry in ended.json["deleted"]] == [["day"]]
    assert homefold("data", "cache", "--json").json["limit_bytes"] == 20_000
    assert homefold("data", "cache", "--clear", "other", "--json").json["deleted"] == []
    assert "Nothing is kept of other; there are entries of photos." in homefold("data", "cache", "other").err
    assert "Deleted 1 of the entries" in homefold("data", "cache", "--clear", "photos").out
    assert homefold("data", "cache", "--json").json["entries"] == []
    assert "20GB" in homefold("data", "cache", "--limit", "much").error


def test_the_cache_counts_features_and_maps_too(
    homefold: Homefold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOMEFOLD_CACHE", str(tmp_path))
    for place, size in (("features/abc", 3000), ("features/def", 500), ("explorer", 1500)):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "1.safetensors").write_bytes(bytes(size))
    facts = homefold("data", "cache", "--json").json
    assert (facts["bytes"], facts["directory"]) == (5000, str(tmp_path))
    assert sorted((entry["kind"], entry["bytes"]) for entry in facts["computed"]) == [
        ("explorer", 1500),
        ("features", 500),
        ("features", 3000),
    ]
    shown = homefold("data", "cache").out
    assert re.search(r"features of frozen backbones \(networks\) .* 2 +3.5 kB", shown)
    assert re.search(r"answers for the explorer \(maps\) .* 1 +1.5 kB", shown)
    assert homefold("data", "cache", "photos", "--json").json["computed"] == []
    assert len(homefold("data", "cache", "--clear", "photos", "--json").json["deleted"]) == 0
    assert len(homefold("data", "cache", "--clear", "--json").json["deleted"]) == 3
    assert homefold("data", "cache", "--json").json["bytes"] == 0


def test_get_downloads_what_torchvision_can_and_explains_the_rest(
    homefold: Homefold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched = []
    monkeypatch.setattr(
        "torchvision.datasets.utils.download_url", lambda url, root, filename, **_: fetched.append(filename)
    )
    ended = homefold("data", "get", "usps", "--to", tmp_path)
    assert (ended.code, fetched) == (0, ["usps.bz2", "usps.t.bz2"])
    assert ended.out == f"Next: homefold data verify digits-few-shot {tmp_path}\n"
    assert "Get it from its authors' page" in homefold("data", "get", "pacs", "--to", tmp_path).error
    assert "can be downloaded are digits-few-shot" in homefold("data", "get", "nothing", "--to", tmp_path).error
    assert fetched == ["usps.bz2", "usps.t.bz2"]
