"""An image prepared as preprocessor.json says has the pixels that the model itself would see."""

from __future__ import annotations

import importlib.util
import io
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from homefold.data import decode_image
from homefold.export.preprocessor import as_input

EXAMPLE = Path(__file__).parents[2] / "examples" / "onnx_predict.py"
SIDE = 24


def about(resize: str) -> dict:
    return {"shape": ["n", SIDE, SIDE, 3], "resize": resize}


def noise(width: int, height: int, mode: str = "RGB") -> Image.Image:
    pixels = np.random.default_rng(width * height).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels).convert(mode)


def stored(image: Image.Image, kind: str, **more: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **more)
    return stream.getvalue()


def both(content: bytes, resize: str) -> tuple[np.ndarray, np.ndarray]:
    found = as_input(Image.open(io.BytesIO(content)), about(resize))
    return found, decode_image(io.BytesIO(content), size=(SIDE, SIDE), resize=resize)


@pytest.mark.parametrize("resize", ["squash", "crop"])
@pytest.mark.parametrize("mode", ["RGB", "L"])
def test_any_size_has_the_same_pixels(resize: str, mode: str) -> None:
    for width in (1, 7, 24, 25, 113, 300):
        for height in (3, 24, 31, 97):
            found, expected = both(stored(noise(width, height, mode), "PNG"), resize)
            assert np.array_equal(found, expected), (width, height)


def test_turned_and_transparent_ones_differ_by_rounding_and_a_reduced_jpeg_by_little() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    clear = noise(61, 47, "RGBA")
    clear.putalpha(noise(61, 47, "L"))
    smooth = noise(8, 6).resize((800, 600), Image.Resampling.BICUBIC)
    limits = {
        stored(noise(61, 47), "JPEG", exif=turned): 1,
        stored(clear, "PNG"): 3,
        stored(smooth, "JPEG", quality=95): 2,
    }
    for content, most in limits.items():
        found, expected = both(content, "squash")
        assert np.abs(found.astype(int) - expected).max() <= most


def test_the_example_prepares_them_alike() -> None:
    pytest.importorskip("onnxruntime", reason="needs homefold[onnx]")
    spec = importlib.util.spec_from_file_location("onnx_predict", EXAMPLE)
    example = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(example)
    for resize in ("squash", "crop"):
        for image in (noise(113, 31), noise(5, 97, "L"), noise(61, 47, "RGBA")):
            assert np.array_equal(example.as_input(image, about(resize)), as_input(image, about(resize)))
