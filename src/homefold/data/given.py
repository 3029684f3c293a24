"""Images as people have them at hand: paths, the bytes of files, Pillow's images, and lists that mix them."""

from __future__ import annotations

import hashlib
import io
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from typing_extensions import TypeIs

from homefold.data.archives import FileImage
from homefold.data.decoding.image import Resize, decode_image, decode_picture
from homefold.data.find import find_images
from homefold.data.index import ImageSource, Stamp

__all__ = ["GivenImage", "given_images", "is_given_image", "paths_of"]

GivenImage = str | Path | bytes | bytearray | memoryview | Image.Image
"""A path, what a file holds, or an image of Pillow's."""

_reading = threading.Lock()


@dataclass(frozen=True, eq=False)
class BytesImage:
    """What an image file holds.

    Args:
        content: all of it.
        path: what messages call it.
    """

    content: bytes
    path: str

    def stamp(self) -> Stamp:
        return Stamp(self.digest(), 0)

    def digest(self) -> str:
        return hashlib.blake2b(self.content, digest_size=16).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        return decode_image(
            io.BytesIO(self.content), size=size, resize=resize, max_megapixels=max_megapixels, name=self.path
        )


@dataclass(frozen=True, eq=False)
class PillowImage:
    """An image of Pillow's; one that was opened and not looked at yet is read as its file would be.

    Args:
        image: as the caller has it.
        path: what messages call it.
    """

    image: Image.Image
    path: str

    def stamp(self) -> Stamp:
        return Stamp(self.digest(), 0)

    def digest(self) -> str:
        return hashlib.blake2b(np.asarray(self.image).tobytes(), digest_size=16).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        # The same image may be given twice, and two threads must not read its file at once.
        with _reading:
            content = _unread_file(self.image)
        if content:
            return BytesImage(content, self.path).pixels(size=size, resize=resize, max_megapixels=max_megapixels)
        return decode_picture(self.image, self.path, size=size, resize=resize, max_megapixels=max_megapixels)


def _unread_file(image: Image.Image) -> bytes:
    """The file behind an image of which no pixel was decoded; empty where there is none.

    A JPEG is decoded from its file at a reduced size where that is enough, so that its pixels differ by rounding from
    those of the whole.
    """
    file = getattr(image, "fp", None)
    if file is None or not getattr(image, "tile", None) or image.tell() != 0:
        return b""
    try:
        place = file.tell()
        file.seek(0)
        content = file.read()
        file.seek(place)
    except (OSError, ValueError):  # closed, or no file to go back in
        return b""
    return bytes(content)


def is_given_image(value: Any) -> TypeIs[GivenImage]:
    """Whether it is something that `given_images` takes."""
    return isinstance(value, GivenImage)


def given_images(images: Sequence[GivenImage]) -> list[ImageSource]:
    """Images in the order given; a folder or a pattern stands for all in it.

    Paths alone are sorted and taken once each, as `find_images` does.
    """
    paths = [image for image in images if isinstance(image, str | Path)]
    if len(paths) == len(images):
        return [FileImage(path) for path in find_images(paths)]
    found: list[ImageSource] = []
    for i, image in enumerate(images):
        name = f"image {i + 1} of {len(images)}" if len(images) > 1 else "the image"
        if isinstance(image, str | Path):
            found += [FileImage(path) for path in find_images(image)]
        elif isinstance(image, Image.Image):
            found.append(PillowImage(image, name))
        else:
            found.append(BytesImage(bytes(image), name))
    return found


def paths_of(sources: Sequence[ImageSource]) -> tuple[str, ...]:
    """The path of each that is a file, and empty text for the others; nothing where none is."""
    paths = tuple(source.path if isinstance(source, FileImage) else "" for source in sources)
    return paths if any(paths) else ()
