"""Decoding one image as a person would see it, and saying what is wrong with one that cannot be."""

from __future__ import annotations

import contextlib
import io
import os
import socket
import tracemalloc
import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from homefold.data.archives import FileImage
from homefold.data.decoding.image import BadImageError, decode_image, is_image_name, resize_images
from homefold.errors import ConfigError, DataError

RED, GREEN, BLUE, WHITE, BLACK = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 255), (0, 0, 0)


def _quarters() -> np.ndarray:
    """`(24, 32, 3)`: red, green over blue, white, so that every turn and mirroring looks different."""
    image = np.empty((24, 32, 3), np.uint8)
    image[:12, :16], image[:12, 16:], image[12:, :16], image[12:, 16:] = RED, GREEN, BLUE, WHITE
    return image


def _corners(image: np.ndarray) -> list[tuple[int, ...]]:
    """The four corners' colours, each channel called 0 or 255, from top left row by row."""
    points = (image[1, 1], image[1, -2], image[-2, 1], image[-2, -2])
    return [tuple(int(value > 127) * 255 for value in point) for point in points]


def _save(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


@pytest.mark.parametrize("extension", ["jpg", "jpeg", "png", "webp", "bmp", "tif", "tiff", "gif"])
def test_every_supported_kind_of_file_is_decoded(tmp_path, extension):
    path = _save(tmp_path / f"image.{extension}", Image.fromarray(_quarters()))
    image = decode_image(path, size=None)
    assert image.dtype == np.uint8
    assert image.shape == (24, 32, 3)
    assert _corners(image) == [RED, GREEN, BLUE, WHITE]


def test_a_lossless_image_of_the_right_size_keeps_every_byte(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (17, 23, 3), dtype=np.uint8)
    path = _save(tmp_path / "noise.png", Image.fromarray(pixels))
    for resize in ("squash", "crop"):
        assert (decode_image(path, size=(17, 23), resize=resize) == pixels).all()


@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "tif"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_an_image_that_the_camera_turned_is_seen_upright(tmp_path, extension, orientation):
    # What a camera stores: the scene after the inverse of the transformation that the tag asks for.
    undo = {
        1: lambda a: a,
        2: lambda a: a[:, ::-1],
        3: lambda a: a[::-1, ::-1],
        4: lambda a: a[::-1],
        5: lambda a: a.transpose(1, 0, 2),
        6: lambda a: np.rot90(a, 1),
        7: lambda a: a[::-1, ::-1].transpose(1, 0, 2),
        8: lambda a: np.rot90(a, -1),
    }[orientation]
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = Image.fromarray(np.ascontiguousarray(undo(_quarters())))
    path = _save(tmp_path / f"turned.{extension}", stored, exif=exif)
    for size in (None, (12, 16), (30, 40), (8, 20)):
        image = decode_image(path, size=size)
        assert image.shape == (*(size or (24, 32)), 3)
        assert _corners(image) == [RED, GREEN, BLUE, WHITE]


def test_a_large_turned_photograph_is_reduced_and_seen_upright(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    scene = np.kron(_quarters(), np.ones((40, 40, 1), np.uint8))
    path = _save(tmp_path / "large.jpg", Image.fromarray(np.rot90(scene).copy()), exif=exif, quality=95)
    assert _corners(decode_image(path, size=(24, 48))) == [RED, GREEN, BLUE, WHITE]
    assert _corners(decode_image(path, size=(48, 24), resize="crop")) == [RED, GREEN, BLUE, WHITE]


def test_damaged_orientation_data_does_not_cost_the_image(tmp_path):
    path = _save(tmp_path / "odd.jpg", Image.fromarray(_quarters()), exif=b"Exif\x00\x00MM\x00*\xff\xff\xff\xff")
    assert _corners(decode_image(path, size=None)) == [RED, GREEN, BLUE, WHITE]


def test_a_cmyk_jpeg_shows_the_colours_that_were_meant(tmp_path):
    path = _save(tmp_path / "print.jpg", Image.fromarray(_quarters()).convert("CMYK"), quality=95)
    assert Image.open(path).mode == "CMYK"
    assert _corners(decode_image(path, size=None)) == [RED, GREEN, BLUE, WHITE]


@pytest.mark.parametrize("extension", ["png", "tif"])
def test_sixteen_bit_greys_are_scaled_and_not_clipped(tmp_path, extension):
    greys = np.array([[0, 1000, 257 * 100], [257 * 200, 60000, 65535]], dtype=np.uint16)
    path = _save(tmp_path / f"deep.{extension}", Image.fromarray(greys))
    expected = np.array([[0, 4, 100], [200, 233, 255]])
    assert (decode_image(path, size=None) == expected[..., None]).all()


def test_a_dark_sixteen_bit_image_stays_dark(tmp_path):
    path = _save(tmp_path / "dark.png", Image.fromarray(np.array([[0, 257, 5140]], dtype=np.uint16)))
    assert decode_image(path, size=None)[0, :, 0].tolist() == [0, 1, 20]


@pytest.mark.parametrize(
    ("greys", "expected"),
    [
        (np.array([[0.0, 0.5, 1.0]]), [0, 128, 255]),
        (np.array([[0.0, 100.0, 255.0]]), [0, 100, 255]),
        (np.array([[-1.0, 0.0, 1.0]]), [0, 128, 255]),
        (np.array([[0.0, 4e5, 1e6]]), [0, 102, 255]),
    ],
)
def test_floating_point_greys_are_scaled_to_their_usual_white(tmp_path, greys, expected):
    path = _save(tmp_path / "float.tif", Image.fromarray(greys.astype(np.float32)))
    assert decode_image(path, size=None)[0, :, 0].tolist() == expected


def test_floating_point_greys_with_nan_are_refused(tmp_path):
    path = _save(tmp_path / "nan.tif", Image.fromarray(np.array([[0.0, np.nan]], dtype=np.float32)))
    with pytest.raises(BadImageError, match=r"nan\.tif is damaged \(it holds NaN"):
        decode_image(path, size=None)


def test_alpha_is_laid_on_white(tmp_path):
    pixels = np.zeros((2, 2, 4), np.uint8)
    pixels[0, 0], pixels[0, 1], pixels[1, 0], pixels[1, 1] = (
        (255, 0, 0, 255),
        (255, 0, 0, 0),
        (0, 0, 0, 51),
        (0, 0, 0, 0),
    )
    path = _save(tmp_path / "alpha.png", Image.fromarray(pixels))
    assert decode_image(path, size=None).tolist() == [[[255, 0, 0], [255] * 3], [[204] * 3, [255] * 3]]


def test_invisible_colour_does_not_bleed_into_a_shrunk_image(tmp_path):
    pixels = np.zeros((64, 64, 4), np.uint8)
    pixels[:, ::2] = (0, 0, 0, 0)
    pixels[:, 1::2] = (255, 0, 0, 255)
    small = decode_image(_save(tmp_path / "alpha.png", Image.fromarray(pixels)), size=(16, 16))
    # Half red, half white: full red, half of green and blue.
    assert np.abs(small[4:-4, 4:-4].astype(int) - [255, 128, 128]).max() <= 2


def test_a_palette_with_transparency_is_laid_on_white(tmp_path):
    image = Image.fromarray(np.array([[0, 1, 2]], dtype=np.uint8), mode="P")
    image.putpalette([255, 0, 0, 0, 0, 255, 10, 20, 30])
    plain = _save(tmp_path / "plain.png", image)
    assert decode_image(plain, size=None).tolist() == [[[255, 0, 0], [0, 0, 255], [10, 20, 30]]]
    one_clear = _save(tmp_path / "clear.png", image, transparency=1)
    assert decode_image(one_clear, size=None).tolist() == [[[255, 0, 0], [255] * 3, [10, 20, 30]]]
    partly = _save(tmp_path / "partly.png", image, transparency=bytes([255, 0, 0]))
    assert decode_image(partly, size=None).tolist() == [[[255, 0, 0], [255] * 3, [255] * 3]]


def test_a_clear_colour_of_a_picture_without_alpha_becomes_white(tmp_path):
    path = _save(tmp_path / "key.png", Image.fromarray(_quarters()), transparency=BLUE)
    assert _corners(decode_image(path, size=None)) == [RED, GREEN, WHITE, WHITE]


def test_greys_and_black_and_white_become_equal_channels(tmp_path):
    greys = np.array([[0, 77, 255]], dtype=np.uint8)
    assert decode_image(_save(tmp_path / "g.png", Image.fromarray(greys)), size=None)[0].tolist() == [
        [0] * 3,
        [77] * 3,
        [255] * 3,
    ]
    bits = Image.fromarray(np.array([[0, 255, 255]], dtype=np.uint8)).convert("1")
    assert decode_image(_save(tmp_path / "b.png", bits), size=None)[0, :, 1].tolist() == [0, 255, 255]


@pytest.mark.parametrize("extension", ["gif", "webp", "png", "tif"])
def test_the_first_frame_of_several_is_taken(tmp_path, extension):
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    path = _save(tmp_path / f"moving.{extension}", frames[0], save_all=True, append_images=frames[1:])
    assert _corners(decode_image(path, size=None)) == [RED] * 4


def test_a_single_pixel_can_be_enlarged(tmp_path):
    path = _save(tmp_path / "dot.png", Image.new("RGB", (1, 1), (9, 80, 200)))
    for resize in ("squash", "crop"):
        assert (decode_image(path, size=(224, 200), resize=resize) == (9, 80, 200)).all()
    assert decode_image(path, size=None).shape == (1, 1, 3)


def test_squash_keeps_everything_and_crop_keeps_the_middle(tmp_path):
    wide = np.zeros((10, 40, 3), np.uint8)
    wide[:, :10], wide[:, 10:30], wide[:, 30:] = RED, GREEN, BLUE
    path = _save(tmp_path / "wide.png", Image.fromarray(wide))
    assert _corners(decode_image(path, size=(10, 10)))[:2] == [RED, BLUE]
    assert _corners(decode_image(path, size=(10, 20), resize="crop")) == [GREEN] * 4
    assert (decode_image(path, size=(10, 20), resize="crop") == wide[:, 10:30]).all()
    tall = _save(tmp_path / "tall.png", Image.fromarray(wide.transpose(1, 0, 2).copy()))
    assert (decode_image(tall, size=(20, 10), resize="crop") == np.array(GREEN)).all()


def test_shrinking_averages_instead_of_picking_pixels(tmp_path):
    stripes = np.zeros((60, 60, 3), np.uint8)
    stripes[:, ::2] = 255
    small = decode_image(_save(tmp_path / "stripes.png", Image.fromarray(stripes)), size=(10, 10))
    assert np.abs(small.astype(int) - 128).max() < 12


@pytest.mark.slow
@given(
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    size=st.tuples(st.integers(1, 30), st.integers(1, 30)),
    resize=st.sampled_from(["squash", "crop"]),
    kind=st.sampled_from(["PNG", "JPEG"]),
)
def test_any_shape_comes_out_at_the_size_asked_for_with_its_plain_colour(height, width, size, resize, kind):
    file = io.BytesIO()
    Image.new("RGB", (width, height), (200, 60, 30)).save(file, kind, quality=95)
    image = decode_image(file, size=size, resize=resize)
    assert image.shape == (*size, 3)
    assert np.abs(image.astype(int) - (200, 60, 30)).max() <= 4


def test_a_reduced_jpeg_looks_like_the_full_one(tmp_path):
    rows, columns = np.meshgrid(np.linspace(20, 230, 1003), np.linspace(20, 230, 777), indexing="ij")
    colours = np.stack([rows, columns, 128 + 90 * np.sin(rows / 20)], axis=-1).astype(np.uint8)
    path = _save(tmp_path / "smooth.jpg", Image.fromarray(colours), quality=95)
    full = Image.fromarray(decode_image(path, size=None))
    for size in ((64, 64), (100, 30)):
        expected = np.asarray(full.resize(size[::-1], Image.Resampling.BILINEAR)).astype(int)
        assert np.abs(decode_image(path, size=size) - expected).max() <= 6


def test_an_image_of_sixty_megapixels_is_decoded(tmp_path):
    path = _save(tmp_path / "huge.jpg", Image.new("RGB", (10_000, 6_000), (30, 90, 200)), quality=80)
    image = decode_image(path, size=(32, 32))
    assert np.abs(image.astype(int) - (30, 90, 200)).max() <= 3


def test_an_image_above_the_limit_is_refused_before_it_is_decoded(tmp_path):
    path = _save(tmp_path / "big.png", Image.new("1", (2000, 1500)))
    with pytest.raises(BadImageError, match=r"big\.png has 3 megapixels \(2000 × 1500\), more than the limit of 2\."):
        decode_image(path, size=(8, 8), max_megapixels=2)
    assert decode_image(path, size=(8, 8), max_megapixels=3).shape == (8, 8, 3)


def test_our_limit_stands_instead_of_pillows_and_leaves_that_one_alone(tmp_path, monkeypatch):
    path = _save(tmp_path / "big.png", Image.new("1", (2000, 1500)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert decode_image(path, size=(8, 8)).shape == (8, 8, 3)
    assert Image.MAX_IMAGE_PIXELS == 1000


def test_an_empty_file_is_named(tmp_path):
    path = tmp_path / "empty.jpg"
    path.write_bytes(b"")
    with pytest.raises(BadImageError, match=r"empty\.jpg is empty \(0 bytes\)\. Replace it.*skip_bad"):
        decode_image(path, size=(8, 8))


def test_a_file_that_is_no_image_is_named(tmp_path):
    path = tmp_path / "letter.png"
    path.write_text("Dear reader, this is not an image.")
    with pytest.raises(BadImageError, match=r"letter\.png is not an image"):
        decode_image(path, size=(8, 8))


def test_a_palette_image_without_its_palette_is_told_with_a_reason(tmp_path):
    path = _save(tmp_path / "a.png", Image.fromarray(_quarters()).convert("P"))
    content = path.read_bytes()
    start = content.index(b"PLTE") - 4
    length = int.from_bytes(content[start : start + 4], "big")
    path.write_bytes(content[:start] + content[start + 12 + length :])
    with pytest.raises(BadImageError, match=r"a\.png is damaged \(\w+"):
        decode_image(path, size=None)


def test_a_huge_file_that_begins_as_a_jpeg_is_not_read_whole(tmp_path):
    path = _save(tmp_path / "a.jpg", Image.fromarray(_quarters()))
    expected = decode_image(path, size=None)
    with path.open("r+b") as file:
        file.truncate(10**8)
    tracemalloc.start()
    found = decode_image(path, size=None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (found == expected).all()
    assert peak < 10**6


def test_formats_that_can_start_other_programs_are_not_tried(tmp_path):
    path = tmp_path / "drawing.png"
    Image.new("RGB", (8, 8)).save(path, "EPS")
    with pytest.raises(BadImageError, match="is not an image"):
        decode_image(path, size=(8, 8))


@pytest.mark.parametrize("extension", ["jpg", "png", "webp", "bmp", "tif", "gif"])
def test_a_truncated_file_is_named_at_whatever_byte_it_ends(tmp_path, extension):
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    whole = _save(tmp_path / f"whole.{extension}", Image.fromarray(noise)).read_bytes()
    path = tmp_path / f"cut.{extension}"
    for share in (0.02, 0.1, 0.3, 0.5, 0.7):
        path.write_bytes(whole[: int(len(whole) * share)])
        with pytest.raises(BadImageError, match=rf"cut\.{extension} is "):
            decode_image(path, size=None)


@pytest.mark.slow
@given(
    position=st.integers(0, 10**6),
    value=st.integers(0, 255),
    kind=st.sampled_from(["PNG", "JPEG", "GIF", "TIFF"]),
)
def test_a_changed_byte_gives_an_image_or_a_sentence_and_never_another_error(position, value, kind):
    file = io.BytesIO()
    Image.fromarray(_quarters()).save(file, kind)
    content = bytearray(file.getvalue())
    content[position % len(content)] = value
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.suppress(BadImageError):
            assert decode_image(io.BytesIO(content), size=(8, 8), max_megapixels=1).shape == (8, 8, 3)


@pytest.mark.skipif(os.name == "nt" or getattr(os, "geteuid", lambda: 1)() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_named(tmp_path):
    path = _save(tmp_path / "secret.png", Image.new("RGB", (4, 4)))
    path.chmod(0)
    with pytest.raises(BadImageError, match=r"secret\.png may not be read \(permission denied\)\. Make it readable"):
        decode_image(path, size=None)


def test_a_refused_permission_becomes_a_sentence(tmp_path, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(BadImageError, match=r"secret\.png may not be read"):
        decode_image(tmp_path / "secret.png", size=None)


def test_a_missing_file_and_a_folder_are_told_apart(tmp_path):
    with pytest.raises(BadImageError, match=r"gone\.png does not exist"):
        decode_image(tmp_path / "gone.png", size=None)
    with pytest.raises(DataError, match="is a folder"):
        decode_image(tmp_path, size=None)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_what_never_ends_is_not_opened(tmp_path):
    pipe, link, port = tmp_path / "pipe.png", tmp_path / "link.png", tmp_path / "s.png"
    os.mkfifo(pipe)
    link.symlink_to(pipe)
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(port))
        kinds = [(pipe, "a pipe"), (link, "a pipe"), (Path("/dev/zero"), "a device"), (port, "a socket")]
        for path, kind in kinds:
            with pytest.raises(BadImageError, match=rf"{path.name} is {kind}, not a file\. Save what comes from it"):
                decode_image(path, size=(2, 2))
            assert FileImage(path).digest() == ""


def test_a_file_object_is_decoded_and_named_as_the_caller_says():
    file = io.BytesIO()
    Image.fromarray(_quarters()).save(file, "PNG")
    assert _corners(decode_image(file, size=None)) == [RED, GREEN, BLUE, WHITE]
    assert not file.closed
    with pytest.raises(BadImageError, match=r"^photos\.tar:a\.png is empty") as caught:
        decode_image(io.BytesIO(), size=None, name="photos.tar:a.png")
    assert (caught.value.name, caught.value.reason) == ("photos.tar:a.png", "is empty (0 bytes)")


def test_a_wrong_size_or_way_of_resizing_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="'squash' or 'crop'; got 'stretch'"):
        decode_image(tmp_path / "x.png", size=(8, 8), resize="stretch")
    with pytest.raises(ConfigError, match="at least 1 each"):
        decode_image(tmp_path / "x.png", size=(0, 8))


def test_images_in_memory_are_resized_like_decoded_ones(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (20, 30, 3), dtype=np.uint8)
    path = _save(tmp_path / "noise.png", Image.fromarray(pixels))
    for resize in ("squash", "crop"):
        resized = resize_images(pixels[None], (12, 9), resize)
        assert (resized[0] == decode_image(path, size=(12, 9), resize=resize)).all()
    assert resize_images(pixels[None], (20, 30))[0].tolist() == pixels.tolist()


@pytest.mark.parametrize(
    ("name", "expected"),
    [("a.jpg", True), ("a.TIFF", True), ("a.svg", False), (".a.jpg", False), ("jpg", False)],
)
def test_images_are_known_by_their_extension(name, expected):
    assert is_image_name(name) is expected
