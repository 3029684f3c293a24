"""How an image file becomes the input of an exported model: as told to other programs, and done as it is told."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image, ImageOps

from homefold.data import load_dataset
from homefold.version import __version__

if TYPE_CHECKING:
    from homefold.model import Homefold

__all__ = ["INPUT", "as_input", "check_files", "preprocessor"]

INPUT = "images"
_FORMAT = 1
_CHECKED = 26


def preprocessor(model: Homefold) -> dict[str, Any]:
    """What a program needs to know that has the ONNX file and no homefold."""
    preprocessing = model.config.preprocessing
    side = preprocessing.image_size
    return {
        "format": "homefold-onnx",
        "format_version": _FORMAT,
        "made_with": {"homefold": __version__, "torch": torch.__version__},
        "input": {
            "name": INPUT,
            "shape": ["n", side, side, 3],
            "type": "uint8",
            "colour": "RGB, upright, transparent parts on white",
            "resize": preprocessing.resize,
            "resampling": "Pillow's bilinear with reducing_gap=3.0",
            "normalisation": "in the graph",
        },
        "outputs": {
            "probabilities": "of each class, in the order of classes",
            "off_manifold": "distance from the source manifold; 95 % of held-out source images stay below 1",
        },
        "classes": list(model.class_names),
    }


def as_input(image: Image.Image, about: dict[str, Any]) -> np.ndarray:
    """The pixels `(height, width, 3)` uint8 that the `input` of a preprocessor asks for, by numpy and Pillow alone."""
    _, height, width, _ = about["shape"]
    image = ImageOps.exif_transpose(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    image = image.convert("RGB")
    left, top, right, bottom = 0.0, 0.0, float(image.width), float(image.height)
    if about["resize"] == "crop":  # the centre, in the input's proportions
        scale = min(image.width / width, image.height / height)
        left, top = max(0.0, (image.width - width * scale) / 2), max(0.0, (image.height - height * scale) / 2)
        right, bottom = min(right, left + width * scale), min(bottom, top + height * scale)
    if image.size != (width, height):
        box = (left, top, right, bottom)
        image = image.resize((width, height), Image.Resampling.BILINEAR, box=box, reducing_gap=3.0)
    return np.asarray(image)


def check_files(model: Homefold) -> list[bytes]:
    """Image files that both are asked: some of the embedded dataset's, wide and high, small and large, some grey."""
    digits, side = load_dataset("digits-mini").images, model.config.preprocessing.image_size
    files = []
    for i, image in enumerate(digits[:: len(digits) // _CHECKED][:_CHECKED]):
        picture = Image.fromarray(image).resize((side * (1 + i % 4), side * (1 + i % 3)), Image.Resampling.BICUBIC)
        stream = io.BytesIO()
        (picture.convert("L") if i % 5 == 4 else picture).save(stream, "PNG", compress_level=1)
        files.append(stream.getvalue())
    return files
