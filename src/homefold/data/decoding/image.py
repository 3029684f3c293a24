"""Decoding one image file to RGB bytes, as a person would see it."""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

import numpy as np
from PIL import Image, UnidentifiedImageError

from homefold.data.paths import special_kind
from homefold.errors import ConfigError, DataError

__all__ = [
    "IMAGE_EXTENSIONS",
    "MAX_MEGAPIXELS",
    "ORIENTATION_TAG",
    "BadImageError",
    "Resize",
    "decode_image",
    "decode_picture",
    "image_header",
    "is_image_name",
    "resize_images",
]

IMAGE_EXTENSIONS = (".jpg", ".jpeg", ".png", ".webp", ".bmp", ".tif", ".tiff", ".gif")
"""File names that count as images, in either case."""

MAX_MEGAPIXELS = 200.0
"""The largest image that is decoded unless the caller says otherwise: a small file can unfold to any size."""

Resize = Literal["squash", "crop"]

# Tried by content, not by name, and no others: Pillow also reads formats that start other programs (EPS).
_FORMATS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF")
ORIENTATION_TAG = 0x0112
"""Where an image's metadata says which way is up."""
_READ_AHEAD_BYTES = 1 << 16
_UPRIGHT = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
_WHY_NOT_OPENED: dict[type[OSError], tuple[str, ...]] = {
    FileNotFoundError: ("does not exist", "Check the path."),
    IsADirectoryError: ("is a folder, not an image", "Give the files in it."),
    PermissionError: (
        "may not be read (permission denied)",
        "Make it readable (chmod u+r), or leave it out with skip_bad.",
    ),
}
_lifting_pillows_limit = threading.Lock()


class BadImageError(DataError):
    """One image that cannot be used; `reason` stands after its name ("is empty (0 bytes)"), `advice` after both."""

    def __init__(self, name: str, reason: str, advice: str = "Replace it, or leave it out with skip_bad.") -> None:
        super().__init__(f"{name} {reason}. {advice}")
        self.name, self.reason, self.advice = name, reason, advice

    def __reduce__(self) -> tuple[type[BadImageError], tuple[str, str, str]]:
        return type(self), (self.name, self.reason, self.advice)


def is_image_name(name: str) -> bool:
    """Whether a file of this name is taken for an image.

    >>> is_image_name("cat.JPG"), is_image_name("cat.txt"), is_image_name("._cat.jpg")
    (True, False, False)
    """
    return not name.startswith(".") and name.lower().endswith(IMAGE_EXTENSIONS)


def decode_image(
    source: str | os.PathLike[str] | BinaryIO,
    *,
    size: tuple[int, int] | None,
    resize: Resize = "squash",
    max_megapixels: float = MAX_MEGAPIXELS,
    name: str | None = None,
) -> np.ndarray:
    """Decode the first frame of an image, upright, in colour, on white where it is transparent.

    Sixteen-bit greys are scaled, not clipped. Resampling is bilinear with antialiasing; an image that already
    has the size is not resampled. Colour profiles are not applied.

    Args:
        source: a path, or an open binary file that can seek.
        size: `(height, width)` of the result; None keeps the image's own.
        resize: `"squash"` ignores the aspect ratio; `"crop"` brings the shorter side to the size and cuts the
            longer one evenly at both ends.
        max_megapixels: larger images are refused before anything is decoded.
        name: what messages call the image; by default the path.

    Returns:
        `(height, width, 3)` uint8.
    """
    _check_resize(size, resize)
    if isinstance(source, str | os.PathLike):
        name = name or os.fspath(source)
        with _open_file(Path(source), name) as file:
            return _decode(file, name, size, resize, max_megapixels)
    return _decode(source, name or str(getattr(source, "name", "the image")), size, resize, max_megapixels)


def decode_picture(
    picture: Image.Image,
    name: str,
    *,
    size: tuple[int, int] | None,
    resize: Resize = "squash",
    max_megapixels: float = MAX_MEGAPIXELS,
) -> np.ndarray:
    """What `decode_image` gives of an image that somebody opened already; the arguments are the same."""
    _check_resize(size, resize)
    with _told(name):
        _check_pixels(picture, name, max_megapixels)
        picture.load()  # at its own size, which a JPEG not read yet would lose
        return _pixels(picture, size, resize)


def image_header(file: BinaryIO, name: str) -> tuple[str, int, int]:
    """Format, width and height of an image, as its header says; nothing is decoded."""
    with _opened(file, name) as image:
        return str(image.format), image.width, image.height


def resize_images(images: np.ndarray, size: tuple[int, int], resize: Resize = "squash") -> np.ndarray:
    """Images `(n, height, width, 3)` uint8 brought to `size` `(height, width)` the way `decode_image` does it."""
    _check_resize(size, resize)
    if images.shape[1:3] == tuple(size):
        return images
    resized = np.empty((len(images), *size, 3), dtype=np.uint8)
    for i, image in enumerate(images):
        own = Image.fromarray(image)
        resized[i] = np.asarray(_resized(own, own.size, (size[1], size[0]), resize))
    return resized


def _check_resize(size: tuple[int, int] | None, resize: str) -> None:
    if resize not in ("squash", "crop"):
        raise ConfigError(f"resize must be 'squash' or 'crop'; got {resize!r}.")
    if size is not None and (len(size) != 2 or min(size) < 1):
        raise ConfigError(f"an image size is (height, width), at least 1 each; got {size}.")


def _open_file(path: Path, name: str) -> BinaryIO:
    if kind := special_kind(path):
        raise BadImageError(
            name, f"is {kind}, not a file", "Save what comes from it as a file, or leave it out with skip_bad."
        )
    try:
        return path.open("rb", buffering=_READ_AHEAD_BYTES)
    except OSError as error:
        told = _WHY_NOT_OPENED.get(type(error), (f"cannot be opened ({error.strerror or error})",))
        raise BadImageError(name, *told) from None


def _decode(
    file: BinaryIO, name: str, size: tuple[int, int] | None, resize: Resize, max_megapixels: float
) -> np.ndarray:
    with _opened(file, name) as image:
        _check_pixels(image, name, max_megapixels)
        return _pixels(image, size, resize)


@contextmanager
def _opened(file: BinaryIO, name: str) -> Iterator[Image.Image]:
    """An image of which the header alone was read; whatever is wrong with it becomes a `BadImageError`."""
    try:
        with _told(name), _open_image(file) as image:
            yield image
    except UnidentifiedImageError:
        file.seek(0)
        reason = "is not an image, or is damaged from its first bytes on" if file.read(1) else "is empty (0 bytes)"
        raise BadImageError(name, reason) from None


@contextmanager
def _told(name: str) -> Iterator[None]:
    """Inside, whatever is wrong with an image becomes a `BadImageError`, but for what is none."""
    try:
        yield
    except (BadImageError, UnidentifiedImageError):
        raise
    except MemoryError:
        raise BadImageError(
            name, "needs more memory than there is", "Shrink it, or leave it out with skip_bad."
        ) from None
    # On a damaged file Pillow raises whatever its parsers stumble over: OSError, SyntaxError, struct.error.
    except Exception as error:
        raise BadImageError(name, f"is damaged ({str(error) or type(error).__name__})") from None


def _open_image(file: BinaryIO) -> Image.Image:
    """Read the header without Pillow's size limit, one number for the whole process; ours is checked next."""
    if isinstance(file, io.BufferedReader):
        file.peek(1)  # so that the lock is not held while a slow disk answers
    with _lifting_pillows_limit:
        limit, Image.MAX_IMAGE_PIXELS = Image.MAX_IMAGE_PIXELS, None
        try:
            return Image.open(file, formats=_FORMATS)
        finally:
            Image.MAX_IMAGE_PIXELS = limit


def _check_pixels(image: Image.Image, name: str, max_megapixels: float) -> None:
    megapixels = image.width * image.height / 1e6
    if megapixels > max_megapixels:
        raise BadImageError(
            name,
            f"has {megapixels:,.0f} megapixels ({image.width} × {image.height}), more than the limit of "
            f"{max_megapixels:g}",
            "Shrink it, raise the limit (max_megapixels), or leave it out with skip_bad.",
        )


def _pixels(image: Image.Image, size: tuple[int, int] | None, resize: Resize) -> np.ndarray:
    """The pixels `(height, width, 3)`, upright, on white; resized first, because each other step copies the image."""
    extent: tuple[float, float] = image.size
    if size is not None and image.format in ("JPEG", "MPO"):
        extent = _draft(image, _stored_size(size, _orientation(image)), resize)
    image.load()
    # Only now: a PNG may name its orientation at its end, and Pillow has turned a TIFF already.
    orientation = _orientation(image)
    if image.format == "TIFF":
        extent = image.size
    image = _eight_bit(image)
    if size is not None:
        image = _resized(image, extent, _stored_size(size, orientation), resize)
    if orientation in _UPRIGHT:
        image = image.transpose(_UPRIGHT[orientation])
    if image.mode == "RGBA":
        image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image)
    return np.array(image if image.mode == "RGB" else image.convert("RGB"))


def _orientation(image: Image.Image) -> int:
    try:
        return int(image.getexif().get(ORIENTATION_TAG, 1))
    # Damaged metadata does not make the picture unusable: viewers show it as stored.
    except Exception:
        return 1


def _stored_size(size: tuple[int, int], orientation: int) -> tuple[int, int]:
    """`(width, height)` to resize to before turning upright, for a result of `size` `(height, width)`."""
    height, width = size
    return (height, width) if orientation >= 5 else (width, height)


def _draft(image: Image.Image, size: tuple[int, int], resize: Resize) -> tuple[float, float]:
    """Have a JPEG decoded at 1/2, 1/4 or 1/8 where that still leaves twice `size`, for speed and memory.

    Returns the width and height it will have; sizes are (width, height).
    """
    left, top, right, bottom = _box(image.size, size, resize)
    across, down = image.width / (right - left), image.height / (bottom - top)
    wanted = (max(1, round(2 * size[0] * across)), max(1, round(2 * size[1] * down)))
    drafted = image.draft(None, wanted)
    # The last row and column of a reduced JPEG may be only partly covered: the extent is a fraction.
    return drafted[1][2:] if drafted else image.size


def _eight_bit(image: Image.Image) -> Image.Image:
    """The image in mode L, RGB or RGBA."""
    if image.mode.startswith("I") or image.mode == "F":
        return Image.fromarray(_scaled_to_bytes(np.asarray(image)))
    opaque = "L" if image.mode in ("1", "L") else "RGB"
    wanted = "RGBA" if image.has_transparency_data else opaque
    # Pillow copies even where there is nothing to convert.
    return image if image.mode == wanted else image.convert(wanted)


def _scaled_to_bytes(grey: np.ndarray) -> np.ndarray:
    """Bytes from greys of more than eight bits, `(height, width)`.

    White is the first usual maximum that no pixel exceeds, so that it means the same in the next image.
    """
    low, high = min(float(grey.min()), 0.0), float(grey.max())
    if not np.isfinite([low, high]).all():
        raise ValueError("it holds NaN or infinite values")
    usual = (1.0, 255.0, 65535.0) if grey.dtype.kind == "f" else (65535.0,)
    white = next((maximum for maximum in usual if high <= maximum), high)
    scaled = np.empty(grey.shape, dtype=np.uint8)
    # Row by row, because floats of a large image would take four times its memory.
    for row, values in zip(scaled, grey, strict=True):
        row[:] = np.rint((values - np.float32(low)) * np.float32(255 / (white - low)))
    return scaled


def _box(extent: tuple[float, float], size: tuple[int, int], resize: Resize) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of what is kept; extent and size are (width, height)."""
    if resize == "squash":
        return (0.0, 0.0, *extent)
    scale = min(extent[0] / size[0], extent[1] / size[1])
    width, height = size[0] * scale, size[1] * scale
    left, top = (extent[0] - width) / 2, (extent[1] - height) / 2
    return left, top, left + width, top + height


def _resized(image: Image.Image, extent: tuple[float, float], size: tuple[int, int], resize: Resize) -> Image.Image:
    """extent and size are (width, height); the extent may end within the last pixel."""
    if image.size == size:
        return image
    left, top, right, bottom = _box(extent, size, resize)
    # Rounding may put the box a hair outside, which Pillow refuses.
    box = (max(left, 0.0), max(top, 0.0), min(right, image.width), min(bottom, image.height))
    return image.resize(size, Image.Resampling.BILINEAR, box=box, reducing_gap=3.0)
