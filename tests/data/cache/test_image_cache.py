"""Decoded images are kept, shared, limited and never out of date."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from trees import Listener, numbered, pixels_of, png, write_folder, write_tar, write_zip

from homefold.data import ImageCache, load_dataset
from homefold.data.cache.computed import computed_entries, explorer_directory, features_directory
from homefold.data.cache.directory import DEFAULT_LIMIT_BYTES, cache_limit_bytes, parse_bytes, set_cache_limit
from homefold.errors import ConfigError, DataError

FILES = [f"{domain}/{name}/{i}.png" for domain in ("a", "b", "c") for name in ("cat", "dog") for i in range(2)]
SIZE = (6, 6)


@pytest.fixture
def photos(tmp_path):
    return write_folder(tmp_path / "photos", numbered(FILES))


def load(photos, **settings):
    listener = Listener()
    dataset = load_dataset(photos, size=SIZE, reporter=listener, **settings)
    return dataset, listener


def test_the_second_run_maps_what_the_first_decoded(photos, cache_dir):
    first, listener = load(photos)
    assert listener.decoded == 12
    second, listener = load(photos)
    assert listener.decoded == 0
    assert isinstance(second.images, np.memmap)
    assert second.fingerprint() == first.fingerprint()
    assert (second.paths, second.class_names) == (first.paths, ("cat", "dog"))
    assert [image.tolist() for image in second.images] == [pixels_of(i).tolist() for i in range(12)]
    assert len(ImageCache().entries()) == 1


def test_a_folder_whose_name_is_no_text_is_cached_too(tmp_path, cache_dir):
    folder = write_folder(tmp_path / "ph\udcff", {name.replace(".png", "\udcff.png"): png(9) for name in FILES})
    load(folder)
    moved = folder.rename(tmp_path / "moved\udcff")
    assert load(moved)[1].decoded == 0
    (entry,) = ImageCache().entries()
    assert entry.names == (r"ph\udcff", r"moved\udcff")


def test_an_entry_that_was_deleted_meanwhile_is_not_half_made_again(photos, cache_dir):
    load(photos)
    (entry,) = ImageCache().entries()
    ImageCache().clear()
    entry.remember("photos", 0, ["a stamp"])
    assert not entry.folder.exists()


def test_without_the_cache_nothing_is_written(photos, cache_dir):
    dataset, _ = load(photos, use_cache=False)
    assert not isinstance(dataset.images, np.memmap)
    assert not cache_dir.exists()


def test_a_domain_that_is_not_asked_for_is_never_decoded(photos, cache_dir):
    for name in ("cat", "dog"):
        (photos / "c" / name / "0.png").write_bytes(b"decoding this would fail")
    dataset, listener = load(photos, domains=["a", "b"])
    assert listener.decoded == 8
    assert dataset.domain_names == ("a", "b")


def test_a_domain_is_decoded_once_whatever_others_it_is_asked_for_with(photos, cache_dir):
    load(photos, domains=["a", "b"])
    _, listener = load(photos, domains=["c"])
    assert listener.decoded == 4
    dataset, listener = load(photos, domains=["a", "c"])
    assert listener.decoded == 0
    assert [image.tolist() for image in dataset.images] == [pixels_of(i).tolist() for i in (0, 1, 2, 3, 8, 9, 10, 11)]
    entries = len(ImageCache().entries())
    dataset, listener = load(photos, domains=["b"])
    assert (listener.decoded, len(ImageCache().entries())) == (0, entries)
    assert [image.tolist() for image in dataset.images] == [pixels_of(i).tolist() for i in range(4, 8)]


@pytest.mark.parametrize("cache_key", ["times", "content"])
def test_a_changed_image_is_never_served_from_the_cache(photos, cache_dir, cache_key):
    load(photos, cache_key=cache_key)
    path = photos / "b" / "dog" / "1.png"
    before = path.stat()
    other = png(500)
    path.write_bytes(other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    dataset, listener = load(photos, cache_key=cache_key)
    assert listener.decoded == 4
    assert dataset.images[7].tolist() == pixels_of(500).tolist()


def test_added_and_removed_images_are_noticed(photos, cache_dir):
    load(photos)
    (photos / "a" / "cat" / "0.png").unlink()
    assert len(load(photos)[0]) == 11
    write_folder(photos, {"a/cat/9.png": png(9)})
    assert len(load(photos)[0]) == 12


def test_a_changed_archive_is_never_served_from_the_cache(tmp_path, cache_dir):
    names = [f"{domain}/dog/{i}.png" for domain in ("photo", "sketch") for i in range(2)]
    names += [name.replace("dog", "person") for name in names]
    write_tar(tmp_path / "pacs" / "all.tar", numbered(names))
    first = load_dataset("pacs", root=tmp_path / "pacs", size=SIZE)
    write_tar(tmp_path / "pacs" / "all.tar", numbered(reversed(names)))
    second = load_dataset("pacs", root=tmp_path / "pacs", size=SIZE)
    assert first.images[0].tolist() == pixels_of(0).tolist()
    assert second.images[0].tolist() == pixels_of(7).tolist()


def test_another_size_or_cut_is_another_entry(photos, cache_dir):
    assert load(photos)[1].decoded == 12
    for settings in ({"resize": "crop"}, {"max_megapixels": 1.0}):
        assert load(photos, **settings)[1].decoded == 12
    listener = Listener()
    assert load_dataset(photos, size=(3, 4), reporter=listener).images.shape == (12, 3, 4, 3)
    assert listener.decoded == 12


@pytest.mark.parametrize("cache_key", ["times", "content"])
def test_a_moved_touched_or_packed_folder_is_found_again_by_its_content(photos, cache_dir, cache_key):
    first, _ = load(photos, cache_key=cache_key)
    moved = photos.rename(photos.with_name("elsewhere"))
    dataset, listener = load(moved, cache_key=cache_key)
    assert (listener.decoded, dataset.paths[0]) == (0, str(moved / "a" / "cat" / "0.png"))
    os.utime(moved / "b" / "cat" / "0.png")
    assert load(moved, cache_key=cache_key)[1].decoded == 0
    packed = write_zip(moved.with_name("packed.zip"), numbered(FILES))
    dataset, listener = load(packed, cache_key=cache_key)
    assert (listener.decoded, dataset.fingerprint()) == (0, first.fingerprint())
    (entry,) = ImageCache().entries()
    assert entry.names == ("photos", "elsewhere", "packed")


def test_what_was_met_before_is_not_even_read_again(photos, cache_dir, monkeypatch):
    load(photos)
    moved = photos.rename(photos.with_name("elsewhere"))
    load(moved)
    monkeypatch.setattr("homefold.data.archives.FileImage.digest", lambda self: pytest.fail("it was read"))
    assert load(moved)[1].decoded == 0
    assert load(moved, domains=["a", "c"])[1].decoded == 0


def test_files_that_change_while_they_are_read_are_not_taken_for_what_they_were(photos, cache_dir, monkeypatch):
    from homefold.data.archives import FileImage

    load(photos)
    moved = photos.rename(photos.with_name("elsewhere"))
    digest = FileImage.digest

    def read_then_change(self):
        found = digest(self)
        self.file.write_bytes(png(700))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(FileImage, "digest", read_then_change)
        with pytest.raises(DataError, match="changed while they were being read"):
            load(moved)
    assert load(moved)[0].images[0].tolist() == pixels_of(700).tolist()


def test_arrays_of_the_same_bytes_in_another_shape_are_other_images(tmp_path, cache_dir):
    pixels = np.arange(2 * 64, dtype=np.uint8)
    for side, (height, width) in enumerate(((4, 16), (8, 8))):
        folder = tmp_path / str(side)
        folder.mkdir()
        np.savez(folder / "usps.npz", x_train=pixels.reshape(2, height, width), y_train=np.array([0, 1]))
    wide, square = (load_dataset("digits-few-shot", root=tmp_path / side, domains=["usps"]) for side in "01")
    assert wide.fingerprint() != square.fingerprint()


def test_a_dataset_with_skipped_images_is_cached_with_their_list(photos, cache_dir):
    bad = photos / "b" / "cat" / "0.png"
    bad.write_bytes(b"")
    with pytest.raises(DataError, match=r"0\.png is empty"):
        load(photos)
    assert ImageCache().entries() == []
    first, _ = load(photos, skip_bad=True)
    second, listener = load(photos, skip_bad=True)
    assert (listener.decoded, len(second)) == (0, 11)
    assert second.skipped == first.skipped == ((str(bad), "is empty (0 bytes)"),)
    assert second.fingerprint() == first.fingerprint()
    assert second.images[4].tolist() == pixels_of(5).tolist()
    with pytest.raises(DataError, match=r"0\.png is empty"):
        load(photos)


def test_a_bad_image_that_became_readable_is_taken_in(photos, cache_dir, monkeypatch):
    from homefold.data.archives import FileImage

    closed = photos / "b" / "cat" / "0.png"
    pixels = FileImage.pixels

    def refuse(self, **settings):
        from homefold.data import BadImageError

        if self.file == closed:
            raise BadImageError(self.path, "may not be read")
        return pixels(self, **settings)

    with monkeypatch.context() as patch:
        patch.setattr(FileImage, "pixels", refuse)
        assert len(load(photos, skip_bad=True)[0]) == 11
        assert load(photos, skip_bad=True)[1].decoded == 0
    assert len(load(photos, skip_bad=True)[0]) == 12


@pytest.mark.parametrize("damage", ["cut off", "no index", "broken index"])
def test_a_damaged_entry_is_made_again(photos, cache_dir, damage):
    expected = load(photos)[0].fingerprint()
    (entry,) = ImageCache().entries()
    if damage == "cut off":
        with (entry.folder / "images.npy").open("r+b") as file:
            file.truncate(500)
    elif damage == "no index":
        (entry.folder / "index.json").unlink()
    else:
        (entry.folder / "index.json").write_text('{"format"')
    dataset, listener = load(photos)
    assert (listener.decoded, dataset.fingerprint()) == (12, expected)
    assert load(photos)[1].decoded == 0


def _flip(path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 4
    path.write_bytes(content)


@pytest.mark.parametrize("place", [-12 * 108, -12 * 108 + 1000, -1])
def test_a_damaged_pixel_is_noticed_and_decoded_anew(photos, cache_dir, place):
    expected = load(photos)[0].fingerprint()
    (entry,) = ImageCache().entries()
    _flip(entry.folder / "images.npy", place)
    dataset, listener = load(photos)
    assert (listener.decoded, dataset.fingerprint()) == (12, expected)
    assert listener.messages == [f"The decoded images of photos in {entry.folder} were damaged and are made anew."]
    dataset, listener = load(photos)
    assert (listener.decoded, listener.messages, dataset.fingerprint()) == (0, [], expected)


def test_a_damaged_pixel_matters_only_to_those_who_ask_for_its_domain(photos, cache_dir):
    load(photos)
    (entry,) = ImageCache().entries()
    _flip(entry.folder / "images.npy", -1)
    dataset, listener = load(photos, domains=["a", "b"])
    assert (listener.decoded, len(dataset)) == (0, 8)
    dataset, listener = load(photos, domains=["c"])
    assert listener.decoded == 4
    assert dataset.images[3].tolist() == pixels_of(11).tolist()


def test_damage_is_not_copied_into_another_entry(photos, cache_dir):
    load(photos)
    (entry,) = ImageCache().entries()
    _flip(entry.folder / "images.npy", -1)
    dataset, listener = load(photos, domains=["c", "a"])
    assert listener.decoded == 4
    assert dataset.images[3].tolist() == pixels_of(11).tolist()
    assert dataset.images[4].tolist() == pixels_of(0).tolist()


def test_an_entry_of_the_layout_before_checksums_is_made_again(photos, cache_dir):
    expected = load(photos)[0].fingerprint()
    (entry,) = ImageCache().entries()
    record = json.loads((entry.folder / "index.json").read_text())
    record["format"] = 2
    for piece in record["pieces"]:
        del piece["checksum"]
    (entry.folder / "index.json").write_text(json.dumps(record))
    dataset, listener = load(photos)
    assert (listener.decoded, dataset.fingerprint()) == (12, expected)
    assert [path.name for path in (cache_dir / "images").iterdir() if not path.name.startswith(".")] == [
        entry.folder.name
    ]


@pytest.mark.parametrize(
    "change",
    [
        {"size": ["6", "six"]},
        {"size": 6},
        {"names": []},
        {"names": 3},
        {"pieces": [1]},
        {"pieces": [{"key": 1, "domain": [], "rows": "many", "bad": [], "stamps": [], "checksum": 0}]},
        {"pieces": [{"key": "", "domain": "", "rows": -1, "bad": [[0, ""]], "stamps": [], "checksum": 0}]},
        {"pieces": [{"key": "", "domain": "", "rows": 12, "bad": [], "stamps": [], "checksum": 0}]},
        {"format": [[]]},
    ],
)
def test_an_index_of_other_values_than_expected_is_no_entry_and_no_error(photos, cache_dir, change):
    load(photos)
    (entry,) = ImageCache().entries()
    record = json.loads((entry.folder / "index.json").read_text())
    (entry.folder / "index.json").write_text(json.dumps({**record, **change}))
    assert load(photos)[1].decoded == 12
    assert len(ImageCache().entries()) == 1


def test_an_index_of_nothing_but_brackets_is_no_error(photos, cache_dir):
    load(photos)
    (entry,) = ImageCache().entries()
    (entry.folder / "index.json").write_text("[" * 100_000)
    assert load(photos)[1].decoded == 12


def test_writing_to_the_images_does_not_reach_the_cache(photos, cache_dir):
    dataset, _ = load(photos)
    dataset.images[0] = 0
    assert load(photos)[0].images[0].tolist() == pixels_of(0).tolist()


def test_a_cache_that_cannot_be_written_costs_only_time(photos, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setenv("HOMEFOLD_CACHE", str(tmp_path / "file" / "cache"))
    dataset, listener = load(photos)
    assert len(dataset) == 12
    assert any("not kept for later runs" in text and "HOMEFOLD_CACHE" in text for text in listener.messages)


def test_files_that_change_while_they_are_decoded_are_an_error(photos, cache_dir, monkeypatch):
    from homefold.data.archives import FileImage

    pixels = FileImage.pixels

    def touch(self, **settings):
        os.utime(self.file)
        return pixels(self, **settings)

    monkeypatch.setattr(FileImage, "pixels", touch)
    with pytest.raises(DataError, match="changed while they were being read"):
        load(photos)
    assert ImageCache().entries() == []
    assert not list((cache_dir / "images").glob(".building-*"))


def test_the_least_recently_used_entry_goes_first_and_never_the_one_in_use(photos, cache_dir):
    for domain in "abc":
        load(photos, domains=[domain])
        entry = ImageCache().entries()[0]
        os.utime(entry.folder / "index.json", (0, 1000 + ord(domain)))
    in_use, _ = load(photos, domains=["a"])
    os.utime(next(e for e in ImageCache().entries() if e.pieces[0].domain == "a").folder / "index.json", (0, 0))
    one = ImageCache().entries()[0].bytes
    deleted = ImageCache().shrink(to_bytes=2 * one + 100)
    assert [entry.pieces[0].domain for entry in deleted] == ["b"]
    assert {entry.pieces[0].domain for entry in ImageCache().entries()} == {"a", "c"}
    assert in_use.images[0].tolist() == pixels_of(0).tolist()


def test_what_was_computed_counts_and_goes_like_decoded_images(photos, cache_dir):
    load(photos, domains=["a"])
    network = features_directory() / "abc"
    explorer_directory().mkdir(parents=True)
    network.mkdir(parents=True)
    for path, size in ((network / "1.safetensors", 300), (network / "2.safetensors", 200)):
        path.write_bytes(bytes(size))
    (explorer_directory() / "map.safetensors").write_bytes(bytes(100))
    for path, used in ((explorer_directory() / "map.safetensors", 5), (network / "2.safetensors", 9), (network, 7)):
        os.utime(path, (used, used))
    os.utime(network / "1.safetensors", (8, 8))
    found = computed_entries()
    assert [(entry.kind, entry.files, entry.bytes, entry.used) for entry in found] == [
        ("features", 2, 500, 9.0),
        ("explorer", 1, 100, 5.0),
    ]
    images = ImageCache().entries()[0].bytes
    assert [entry.used for entry in ImageCache().shrink(images + 550)] == [5.0]
    assert [entry.bytes for entry in ImageCache().shrink(images)] == [500]
    assert not computed_entries()
    assert not network.exists()
    assert len(ImageCache().entries()) == 1


def test_building_makes_room_below_the_limit(photos, cache_dir, monkeypatch):
    load(photos, domains=["a"])
    one = ImageCache().entries()[0].bytes
    monkeypatch.setenv("HOMEFOLD_CACHE_LIMIT", str(one + 100))
    load(photos, domains=["b"])
    assert [entry.pieces[0].domain for entry in ImageCache().entries()] == ["b"]
    _, listener = load(photos, domains=["a", "b", "c"])
    assert any("more than the cache's limit" in text for text in listener.messages)


def test_what_the_limit_leaves_no_room_for_is_not_read_in_vain(photos, cache_dir, monkeypatch):
    monkeypatch.setenv("HOMEFOLD_CACHE_LIMIT", "0")
    monkeypatch.setattr("homefold.data.archives.FileImage.digest", lambda self: pytest.fail("it was read"))
    dataset, listener = load(photos)
    assert (len(dataset), listener.decoded) == (12, 12)
    assert "more than the cache's limit of 0.0 GB" in listener.messages[0]


def test_clearing_spares_other_datasets_and_what_is_in_use(photos, cache_dir):
    other = write_folder(photos.with_name("other"), {name: png(i) for i, name in enumerate(FILES, start=50)})
    load(other)
    used, _ = load(photos)
    assert ImageCache().clear("photos") == ([], ImageCache().entries()[:1])
    deleted, in_use = ImageCache().clear("other")
    assert ([entry.name for entry in deleted], in_use) == (["other"], [])
    del used
    deleted, _ = ImageCache().clear()
    assert [entry.name for entry in deleted] == ["photos"]
    assert ImageCache().entries() == []


def test_a_limit_is_read_as_people_write_it(cache_dir, monkeypatch):
    assert parse_bytes("20GB") == 20_000_000_000
    assert parse_bytes(" 1.5 gib") == 1_610_612_736
    for text in ("", "many", "-3GB", "3 parsecs"):
        with pytest.raises(ConfigError, match="20GB"):
            parse_bytes(text)
    assert cache_limit_bytes() == DEFAULT_LIMIT_BYTES
    set_cache_limit(123)
    assert cache_limit_bytes() == 123
    monkeypatch.setenv("HOMEFOLD_CACHE_LIMIT", "1MB")
    assert cache_limit_bytes() == 1_000_000
    monkeypatch.setenv("HOMEFOLD_CACHE_LIMIT", "lots")
    with pytest.raises(ConfigError, match="HOMEFOLD_CACHE_LIMIT cannot be used"):
        cache_limit_bytes()


_LOADER = """
import json, signal, sys
from homefold.data import load_dataset
from homefold.data.archives import FileImage

decoded = 0
pixels = FileImage.pixels
def slow(self, **settings):
    global decoded
    decoded += 1
    if sys.argv[2] == "hang" and decoded == 6:
        print("hanging", flush=True)
        signal.pause()
    return pixels(self, **settings)
FileImage.pixels = slow
dataset = load_dataset(sys.argv[1], size=(6, 6), workers=1)
print(json.dumps({"decoded": decoded, "fingerprint": dataset.fingerprint()}))
"""


def _start(photos, mode) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", _LOADER, str(photos), mode]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _start_and_hang(photos) -> subprocess.Popen[str]:
    """A build that has decoded half of its images and goes no further."""
    process = _start(photos, "hang")
    assert process.stdout.readline() == "hanging\n"
    return process


@pytest.mark.slow
def test_two_processes_at_once_decode_once_and_agree(photos, cache_dir):
    processes = [_start(photos, "go") for _ in range(2)]
    ended = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    assert sorted(one["decoded"] for one in ended) == [0, 12]
    assert ended[0]["fingerprint"] == ended[1]["fingerprint"] == load(photos)[0].fingerprint()
    assert [path.name for path in (cache_dir / "images").iterdir() if not path.name.startswith(".")] == [
        ImageCache().entries()[0].folder.name
    ]


@pytest.mark.slow
def test_a_build_that_is_killed_leaves_nothing_that_is_used_and_is_cleaned_up(photos, cache_dir):
    process = _start_and_hang(photos)
    (building,) = (cache_dir / "images").glob(".building-*")
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=60)
    process.stdout.close()
    assert building.exists()
    assert ImageCache().entries() == []
    dataset, listener = load(photos)
    assert listener.decoded == 12
    assert [image.tolist() for image in dataset.images] == [pixels_of(i).tolist() for i in range(12)]
    assert not list((cache_dir / "images").glob(".building-*"))


@pytest.mark.slow
def test_a_build_under_way_is_not_taken_for_an_abandoned_one(photos, cache_dir):
    process = _start_and_hang(photos)
    try:
        ImageCache().clear()
        load(photos, domains=["a"])
        assert len(list((cache_dir / "images").glob(".building-*"))) == 1
    finally:
        process.kill()
        process.communicate()
