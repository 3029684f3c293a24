"""Bytes and Pillow's images have the pixels of their files."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from homefold.data import BadImageError, decode_image
from homefold.data.decoding.image import MAX_MEGAPIXELS
from homefold.data.given import given_images, is_given_image, paths_of
from homefold.data.index import ImageSource
from homefold.errors import DataError

SIZE = (24, 24)
SIXTH = 6  # EXIF: to be turned by a quarter


def noise(seed: int, mode: str = "RGB", side: tuple[int, int] = (61, 47)) -> Image.Image:
    random = np.random.default_rng(seed)
    return Image.fromarray(random.integers(0, 256, (*side, 3), dtype=np.uint8)).convert(mode)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """One of each kind: grey, with a palette, transparent, turned by its EXIF; JPEGs larger and smaller than asked."""
    turned = Image.Exif()
    turned[0x0112] = SIXTH
    noise(0, "L").save(tmp_path / "grey.png")
    noise(1, "P").save(tmp_path / "palette.gif")
    noise(2, "RGBA").save(tmp_path / "clear.webp")
    noise(3).save(tmp_path / "turned.jpg", exif=turned)
    noise(4).save(tmp_path / "turned.tif", exif=turned)
    noise(5, side=(400, 300)).save(tmp_path / "large.jpg")
    Image.fromarray(np.arange(48 * 48, dtype=np.uint16).reshape(48, 48) * 20).save(tmp_path / "deep.png")
    return sorted(tmp_path.iterdir())


def pixels(source: ImageSource) -> np.ndarray:
    return source.pixels(size=SIZE, resize="crop", max_megapixels=MAX_MEGAPIXELS)


def test_bytes_and_opened_images_have_the_pixels_of_their_files(files: list[Path]) -> None:
    for path in files:
        expected = decode_image(path, size=SIZE, resize="crop")
        with Image.open(path) as opened:
            given = given_images([path.read_bytes(), opened, opened, bytearray(path.read_bytes()), str(path)])
            for source in given:
                assert np.array_equal(pixels(source), expected), path.name


def test_a_loaded_image_has_the_pixels_of_its_file_unless_that_is_a_large_jpeg(files: list[Path]) -> None:
    for path in files:
        with Image.open(path) as opened:
            opened.load()
            (found,) = map(pixels, given_images([opened]))
        expected = decode_image(path, size=SIZE, resize="crop")
        if path.name == "large.jpg":
            assert 0 < np.abs(found.astype(int) - expected).max() < 40
        else:
            assert np.array_equal(found, expected), path.name


def test_a_converted_image_is_still_upright(files: list[Path]) -> None:
    path = next(file for file in files if file.name == "turned.jpg")
    with Image.open(path) as opened:
        (found,) = map(pixels, given_images([opened.convert("RGB")]))
    assert np.array_equal(found, decode_image(path, size=SIZE, resize="crop"))


def test_a_later_frame_that_was_chosen_is_taken(tmp_path: Path) -> None:
    frames = [noise(i, "P") for i in range(2)]
    frames[0].save(tmp_path / "two.gif", save_all=True, append_images=frames[1:])
    with Image.open(tmp_path / "two.gif") as opened:
        first = pixels(given_images([opened])[0])
        opened.seek(1)
        second = pixels(given_images([opened])[0])
    assert not np.array_equal(first, second)


def test_a_mixed_list_keeps_its_order_and_paths_alone_are_sorted(files: list[Path]) -> None:
    folder, image = files[0].parent, noise(9)
    mixed = given_images([image, files[2], files[0].read_bytes(), str(folder), files[0]])
    assert paths_of(mixed) == ("", str(files[2]), "", *map(str, files), str(files[0]))
    assert [source.path for source in given_images([files[2], files[0], files[2]])] == [str(files[0]), str(files[2])]
    assert paths_of(given_images([image, image])) == ()


def test_what_is_wrong_is_told_by_place(files: list[Path]) -> None:
    given = given_images([files[0], b"", b"no image", files[1].read_bytes()[:40]])
    for place, reason in ((1, "image 2 of 4 is empty"), (2, "image 3 of 4 is not an image"), (3, "image 4 of 4 is")):
        with pytest.raises(BadImageError, match=reason):
            pixels(given[place])
    with pytest.raises(BadImageError, match=r"the image has 0 megapixels .* more than the limit"):
        given_images([noise(0)])[0].pixels(size=SIZE, resize="crop", max_megapixels=1e-6)
    with pytest.raises(DataError, match="There is no file"):
        given_images([b"", "nowhere.png"])


def test_only_images_are_taken_for_images() -> None:
    taken = [
        "a.png",
        Path("a.png"),
        b"",
        bytearray(),
        memoryview(b""),
        noise(0),
        np.zeros((4, 4)),
        torch.zeros(3, 4, 4),
    ]
    assert all(map(is_given_image, taken))
    assert not any(map(is_given_image, [None, 3, io.BytesIO(), ["a.png"]]))


def test_an_array_is_one_image_or_refused() -> None:
    pixels_of_one = np.array(noise(0))
    grey, first, last = given_images(
        [pixels_of_one[..., 0], torch.from_numpy(pixels_of_one).permute(2, 0, 1), pixels_of_one]
    )
    assert np.array_equal(pixels(first), pixels(last))
    assert np.array_equal(pixels(last), pixels(given_images([noise(0)])[0]))
    assert np.array_equal(pixels(grey)[..., 0], pixels(grey)[..., 2])
    assert first.digest() == last.digest() != grey.digest()
    for odd, words in ((np.zeros(3), "must be of shape"), (np.zeros((2, 4, 4, 3)), "is an array of 2 images")):
        with pytest.raises(DataError, match=words):
            given_images([odd])
