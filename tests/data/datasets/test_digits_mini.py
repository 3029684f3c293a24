"""The embedded dataset: what is in it, where it comes from, and its cache."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from homefold.data.cache.directory import cache_directory
from homefold.data.datasets import digits_mini
from homefold.data.datasets.digits_mini import DIGITS_MINI_DOMAINS, DIGITS_MINI_FONTS, load_digits_mini


@pytest.fixture(scope="module")
def dataset():
    return load_digits_mini(seed=0, use_cache=False)


@pytest.fixture
def drawn_seeds(monkeypatch):
    """Replaces the drawing by something quick and records the seeds it was called with."""
    seeds = []

    def draw(seed: int) -> np.ndarray:
        seeds.append(seed)
        return np.full((3480, 32, 32, 3), seed, dtype=np.uint8)

    monkeypatch.setattr(digits_mini, "_draw", draw)
    return seeds


def test_it_has_four_balanced_domains_of_ten_digits(dataset):
    assert dataset.domain_names == ("scan", "photo", "print", "street")
    assert dataset.class_names == tuple("0123456789")
    assert dataset.images.shape == (3480, 32, 32, 3)
    for domain in range(4):
        assert np.bincount(dataset.labels[dataset.domains == domain]).tolist() == [87] * 10


@pytest.mark.slow
def test_the_same_seed_draws_the_same_bytes_and_another_seed_others(dataset):
    assert load_digits_mini(seed=0, use_cache=False).fingerprint() == dataset.fingerprint()
    other = load_digits_mini(seed=1, use_cache=False)
    for name in DIGITS_MINI_DOMAINS:
        assert (other.only(name).images != dataset.only(name).images).mean() > 0.1


def test_no_handwritten_digit_stands_in_both_scan_and_photo(dataset):
    scan, photo = digits_mini._share_handwriting(seed=0)
    assert len(set(scan)) == len(set(photo)) == 870
    assert not set(scan) & set(photo)
    enlarged = np.rint(255 * digits_mini._handwriting()[scan])
    assert (dataset.only("scan").images == enlarged[..., None]).all()


def test_the_enlarged_handwriting_still_shows_the_small_one():
    large, small = digits_mini._handwriting(), load_digits().images / 16
    shrunk = large.reshape(-1, 8, 4, 8, 4).mean(axis=(2, 4))
    assert np.abs(shrunk - small).mean() < 0.05


def test_scan_and_photo_carry_the_labels_of_the_handwriting_they_show(dataset):
    target = load_digits().target
    for name, rows in zip(("scan", "photo"), digits_mini._share_handwriting(seed=0), strict=True):
        assert target[rows].tolist() == dataset.only(name).labels.tolist()


def test_photo_differs_from_its_patch_only_where_there_is_ink(dataset):
    _, rows = digits_mini._share_handwriting(seed=0)
    ink = digits_mini._handwriting()[rows]
    blank = digits_mini._draw_photo(np.zeros_like(ink), digits_mini._random(0, "photo"))
    photo = dataset.only("photo").images
    assert (photo[ink == 0] == blank[ink == 0]).all()
    inverted = np.abs(blank[ink == 1].astype(int) - 255)
    assert np.abs(photo[ink == 1].astype(int) - inverted).max() <= 1


def test_scan_is_grey_and_the_other_domains_are_coloured(dataset):
    def colourfulness(name: str) -> float:
        images = dataset.only(name).images.astype(int)
        return float((images.max(axis=-1) - images.min(axis=-1)).mean())

    assert colourfulness("scan") == 0
    assert min(colourfulness(name) for name in ("photo", "print", "street")) > 20


def test_no_two_images_are_alike(dataset):
    assert len(np.unique(dataset.images.reshape(len(dataset), -1), axis=0)) == len(dataset)


def test_print_is_readable_ink_on_paper(dataset):
    grey = dataset.only("print").images @ np.array([0.299, 0.587, 0.114])
    assert (grey.max(axis=(1, 2)) - grey.min(axis=(1, 2))).min() > 60


def test_a_print_digit_is_recognised_by_its_nearest_printed_neighbour_far_above_chance(dataset):
    prints = dataset.only("print")
    grey = (prints.images @ np.array([0.299, 0.587, 0.114])).reshape(len(prints), -1)
    shape = np.abs(grey - np.median(grey, axis=1, keepdims=True))
    shape /= np.linalg.norm(shape, axis=1, keepdims=True)
    similarity = shape @ shape.T
    np.fill_diagonal(similarity, -1)
    assert (prints.labels[similarity.argmax(axis=1)] == prints.labels).mean() > 0.8


@pytest.mark.parametrize("font", DIGITS_MINI_FONTS)
def test_every_font_draws_ten_different_digits(font):
    glyphs = [digits_mini._glyph(font, digit) for digit in range(10)]
    assert all(np.asarray(glyph).max() == 255 for glyph in glyphs)
    assert len({(glyph.size, glyph.tobytes()) for glyph in glyphs}) == 10


def test_every_font_draws_digits_and_not_symbols():
    def shape(font: str, digit: int) -> np.ndarray:
        return np.asarray(digits_mini._glyph(font, digit).resize((24, 32)), dtype=float).ravel()

    typical = np.stack([np.mean([shape(font, d) for font in DIGITS_MINI_FONTS], axis=0) for d in range(10)])
    for font in DIGITS_MINI_FONTS:
        recognised = [int(np.corrcoef([*typical, shape(font, d)])[-1, :-1].argmax()) == d for d in range(10)]
        assert sum(recognised) >= 9, font


def test_a_second_load_reads_the_cache(tmp_path, drawn_seeds):
    first = load_digits_mini(seed=7, cache_dir=tmp_path)
    second = load_digits_mini(seed=7, cache_dir=tmp_path)
    assert drawn_seeds == [7]
    assert second.fingerprint() == first.fingerprint()
    assert [path.suffix for path in tmp_path.iterdir()] == [".npz"]


@pytest.mark.slow
def test_the_cache_keeps_the_bytes_that_were_drawn(tmp_path, dataset):
    load_digits_mini(seed=0, cache_dir=tmp_path)
    assert load_digits_mini(seed=0, cache_dir=tmp_path).fingerprint() == dataset.fingerprint()


def test_another_seed_recipe_or_library_version_is_drawn_anew(tmp_path, drawn_seeds, monkeypatch):
    load_digits_mini(seed=1, cache_dir=tmp_path)
    load_digits_mini(seed=2, cache_dir=tmp_path)
    assert drawn_seeds == [1, 2]
    monkeypatch.setattr(digits_mini, "_RECIPE", 99)
    load_digits_mini(seed=1, cache_dir=tmp_path)
    assert drawn_seeds == [1, 2, 1]
    monkeypatch.setattr(digits_mini.PIL, "__version__", "99.0")
    load_digits_mini(seed=1, cache_dir=tmp_path)
    assert drawn_seeds == [1, 2, 1, 1]


@pytest.mark.parametrize(
    "damage", ["empty", "truncated", "flipped", "marked encrypted", "text", "other shape", "other name"]
)
def test_a_corrupt_cache_file_is_drawn_again_and_replaced(tmp_path, drawn_seeds, damage):
    good = load_digits_mini(seed=3, cache_dir=tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "flipped":
        content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)
    elif damage == "marked encrypted":
        content[content.rindex(b"PK\x01\x02") + 8] |= 1
        path.write_bytes(content)
    elif damage == "text":
        path.write_text("not an archive")
    elif damage == "other shape":
        np.savez(path, images=np.zeros((2, 32, 32, 3), np.uint8))
    else:
        np.savez(path, pictures=good.images)
    assert load_digits_mini(seed=3, cache_dir=tmp_path).fingerprint() == good.fingerprint()
    assert drawn_seeds == [3, 3]
    load_digits_mini(seed=3, cache_dir=tmp_path)
    assert drawn_seeds == [3, 3]


def test_a_cache_that_cannot_be_written_costs_only_the_cache(tmp_path, drawn_seeds):
    blocked = tmp_path / "a file, not a folder"
    blocked.write_text("")
    assert len(load_digits_mini(seed=4, cache_dir=blocked)) == 3480
    assert drawn_seeds == [4]


def test_without_the_cache_nothing_is_written(tmp_path, drawn_seeds, monkeypatch):
    monkeypatch.setenv("HOMEFOLD_CACHE", str(tmp_path))
    load_digits_mini(seed=5, use_cache=False)
    assert list(tmp_path.iterdir()) == []
    load_digits_mini(seed=5)
    assert len(list(tmp_path.iterdir())) == 1


def test_the_cache_directory_follows_the_environment(monkeypatch):
    monkeypatch.setenv("HOMEFOLD_CACHE", "/somewhere/own")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere/shared")
    assert cache_directory() == Path("/somewhere/own")
    monkeypatch.delenv("HOMEFOLD_CACHE")
    assert cache_directory() == Path("/somewhere/shared/homefold")
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_directory() == Path(os.path.expanduser("~/.cache/homefold"))
