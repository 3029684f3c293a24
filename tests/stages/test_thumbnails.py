"""Small image files of training images in a model: what they are, and which are refused."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from homefold import Homefold
from homefold.errors import ModelFileError
from homefold.stages.thumbnails import LARGEST_PX, Thumbnails


def noise(count: int, side: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, (count, side, side, 3), np.uint8)


def again(found: Thumbnails, count: int, image_size: int, **changed: torch.Tensor) -> Thumbnails:
    return Thumbnails.from_tensors({**found.tensors(), **changed}, count=count, image_size=image_size)


def test_small_images_come_back_as_they_were():
    pixels = noise(3, 16)
    found = again(Thumbnails.of(pixels, 16), 3, 16)
    assert found.facts() == {"images": 3, "side_px": 16, "bytes": sum(map(len, found.files))}
    assert all(file.startswith(b"\x89PNG") for file in found.files)
    np.testing.assert_array_equal(found.images(16, "squash"), pixels)


def test_large_images_become_small_jpegs():
    smooth = np.linspace(0, 255, 256, dtype=np.uint8)[None, :, None, None]
    pixels = np.broadcast_to(smooth, (1, 256, 256, 3)).copy()
    found = again(Thumbnails.of(pixels, 256), 1, 256)
    assert (found.side_px, LARGEST_PX) == (224, 224)
    assert Image.open(io.BytesIO(found.files[0])).size == (224, 224)
    assert found.files[0].startswith(b"\xff\xd8")
    assert len(found.files[0]) < 10_000
    shown = found.images(256, "squash")
    assert shown.shape == pixels.shape
    assert np.abs(shown.astype(int) - pixels).max() <= 8


@pytest.mark.parametrize("side", [63, 64, 224])
def test_even_noise_keeps_to_the_bound(side: int):
    assert len(again(Thumbnails.of(noise(1, side), side), 1, side).files) == 1


def test_what_a_model_kept_is_what_it_was_trained_on(keeping, few_digits):
    model, source = Homefold.load(keeping, device="cpu"), few_digits.without("street")
    kept = model.thumbnails()
    np.testing.assert_array_equal(kept.images, source.images[model.sources.rows])
    np.testing.assert_array_equal(kept.labels, source.labels[model.sources.rows])
    assert kept.domain_names == model.source_domains == source.domain_names


def test_without_being_asked_a_model_keeps_no_pixels(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    assert not (tmp_path / "model" / "thumbnails.safetensors").exists()
    assert all("humbnail" not in (tmp_path / "model" / name).read_text() for name in ("README.md", "model.json"))
    assert Homefold.load(tmp_path / "model", device="cpu").thumbnails() is None


def a_bomb() -> bytes:
    """A PNG of a few bytes that says it has 900 megapixels."""
    parts = [b"IHDR" + struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0), b"IDAT" + zlib.compress(b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(part) - 4) + part + struct.pack(">I", zlib.crc32(part)) for part in parts
    )


def as_file(pixels: np.ndarray, kind: str) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(pixels).save(stream, kind)
    return stream.getvalue()


@pytest.mark.parametrize(
    ("file", "said"),
    [
        (a_bomb(), "30000 × 30000 px; expected PNG of 16 × 16 px"),
        (as_file(noise(1, 15)[0], "PNG"), "15 × 15 px; expected"),
        (as_file(noise(1, 16)[0], "WEBP"), "WEBP of 16 × 16 px; expected PNG"),
        (b"no image at all", "not an image"),
        (b"\0" * 10_000, "1 to 5120 bytes"),
    ],
)
def test_files_of_another_kind_are_refused_before_they_are_decoded(file: bytes, said: str):
    whole = Thumbnails.of(noise(1, 16), 16)
    with pytest.raises(ModelFileError, match=said):
        again(Thumbnails((*whole.files, file), 16), 2, 16)


@pytest.mark.parametrize(
    "changed",
    [
        {"ends": torch.tensor([5])},
        {"ends": torch.tensor([5, 5])},
        {"ends": torch.tensor([900, 5])},
        {"ends": torch.tensor([-5, 5])},
        {"ends": torch.tensor([2**62, -(2**62)])},
        {"ends": torch.tensor([1.0, 2.0])},
        {"files": torch.zeros(3)},
        {"files": torch.zeros(3, 3, dtype=torch.uint8)},
        {"more": torch.zeros(3)},
    ],
    ids=str,
)
def test_odd_arrays_are_refused(changed: dict[str, torch.Tensor]):
    found = Thumbnails.of(noise(2, 16), 16)
    assert again(found, 2, 16).files == found.files
    with pytest.raises(ModelFileError, match="thumbnail"):
        again(found, 2, 16, **changed)


def test_a_damaged_one_gets_a_sentence_when_it_is_looked_at():
    whole = Thumbnails.of(noise(1, 16), 16)
    damaged = again(Thumbnails((whole.files[0][:60],), 16), 1, 16)
    with pytest.raises(ModelFileError, match="thumbnail 0 of the model is damaged"):
        damaged.images(16, "squash")


def test_a_description_that_does_not_fit_its_thumbnails_is_refused(keeping, tmp_path):
    from odd_folders import copied, described, seal

    folder = copied(keeping, tmp_path / "model")
    content = described(folder)
    content["measured"]["thumbnails"]["images"] += 1
    seal(folder, content)
    with pytest.raises(ModelFileError, match="do not agree on the thumbnails"):
        Homefold.load(folder, device="cpu")
    del content["digests"]["sources"]
    seal(folder, content)
    with pytest.raises(ModelFileError, match="thumbnails"):
        Homefold.load(folder, device="cpu")
