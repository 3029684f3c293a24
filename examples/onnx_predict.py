"""Answer for images with an exported model: numpy, Pillow and onnxruntime, no torch, no homefold.

homefold export model --to onnx --out model-onnx
python examples/onnx_predict.py model-onnx image.jpg …
"""

import json
import sys
from pathlib import Path

import numpy as np
import onnxruntime
from PIL import Image, ImageOps


def as_input(image: Image.Image, about: dict) -> np.ndarray:
    """The pixels `(height, width, 3)` of an image: upright, in colour, on white, resized as preprocessor.json says."""
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


def main() -> None:
    """Print one line of JSON an image."""
    folder, *paths = sys.argv[1:]
    about = json.loads((Path(folder) / "preprocessor.json").read_text(encoding="utf-8"))
    model = onnxruntime.InferenceSession(str(Path(folder) / "model.onnx"), providers=["CPUExecutionProvider"])
    images = np.stack([as_input(Image.open(path), about["input"]) for path in paths])
    probabilities, off_manifold = model.run(["probabilities", "off_manifold"], {about["input"]["name"]: images})
    for path, row, distance in zip(paths, probabilities, off_manifold, strict=True):
        best = int(row.argmax())
        answer = {"path": path, "label": about["classes"][best], "confidence": float(row[best])}
        print(json.dumps({**answer, "off_manifold": float(distance)}))


if __name__ == "__main__":
    main()
