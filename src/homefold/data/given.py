"""Images as people have them at hand: files, folders, patterns, bytes, Pillow's images, arrays, mixtures of these."""

from __future__ import annotations

import glob
import hashlib
import io
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from PIL import Image
from typing_extensions import TypeIs

from homefold.data.archives import FileImage, is_archive, is_compressed_tar, is_image, walk
from homefold.data.arrays import images_from_array, without_torch
from homefold.data.decoding.image import (
    IMAGE_EXTENSIONS,
    ORIENTATION_TAG,
    Resize,
    decode_image,
    decode_picture,
    resize_images,
)
from homefold.data.index import Decodable, Stamp
from homefold.data.paths import given_path
from homefold.errors import DataError

if TYPE_CHECKING:
    import torch

__all__ = ["GivenImage", "find_images", "given_images", "is_given_image", "one_of_each", "paths_of"]

GivenImage: TypeAlias = "str | Path | bytes | bytearray | memoryview | Image.Image | np.ndarray | torch.Tensor"
"""A path, what a file holds, an image of Pillow's, or the pixels of one."""

_reading = threading.Lock()


@dataclass(frozen=True, eq=False)
class BytesImage:
    """What an image file holds; messages call it by its `path`."""

    content: bytes
    path: str

    def stamp(self) -> Stamp:
        return Stamp(f"bytes|{self.digest()}", 0)

    def digest(self) -> str:
        return hashlib.blake2b(self.content, digest_size=16).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        return decode_image(
            io.BytesIO(self.content), size=size, resize=resize, max_megapixels=max_megapixels, name=self.path
        )


@dataclass(frozen=True, eq=False)
class PillowImage:
    """An image of Pillow's; one that was opened and not looked at yet is read as its file would be."""

    image: Image.Image
    path: str

    def stamp(self) -> Stamp:
        return Stamp(f"picture|{self.digest()}", 0)

    def digest(self) -> str:
        with _reading:
            if content := _unread_file(self.image):
                return BytesImage(content, self.path).digest()
            try:
                content = self.image.tobytes()
            # Pillow raises whatever its parsers stumble over; decoding will tell.
            except Exception:
                return ""
        seen = f"{self.image.mode}|{self.image.size}|{self.image.getexif().get(ORIENTATION_TAG)}|"
        return hashlib.blake2b(seen.encode() + content, digest_size=16).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        # The same image may be given twice, and two threads must not read its file at once.
        with _reading:
            content = _unread_file(self.image)
        if content:
            return BytesImage(content, self.path).pixels(size=size, resize=resize, max_megapixels=max_megapixels)
        return decode_picture(self.image, self.path, size=size, resize=resize, max_megapixels=max_megapixels)


@dataclass(frozen=True, eq=False)
class PixelImage:
    """Pixels `(height, width, 3)` uint8."""

    image: np.ndarray
    path: str

    def stamp(self) -> Stamp:
        return Stamp(f"pixels|{self.digest()}", 0)

    def digest(self) -> str:
        return hashlib.blake2b(f"{self.image.shape}|".encode() + self.image.tobytes(), digest_size=16).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        return self.image if size is None else np.asarray(resize_images(self.image[None], size, resize)[0])


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
    return isinstance(value, str | Path | bytes | bytearray | memoryview | Image.Image) or _is_pixels(value)


def _is_pixels(value: Any) -> TypeIs[np.ndarray | torch.Tensor]:
    torch = sys.modules.get("torch")
    return isinstance(value, np.ndarray) or (torch is not None and isinstance(value, torch.Tensor))


def one_of_each(images: Sequence[GivenImage]) -> list[Decodable]:
    """One image for each entry, in their order, as labels beside them ask for."""
    return [
        FileImage(given_path(image)) if isinstance(image, str | Path) else _in_memory(image, _name(i, len(images)))
        for i, image in enumerate(images)
    ]


def given_images(images: Sequence[GivenImage]) -> list[Decodable]:
    """Images in the order given; a folder or a pattern stands for all in it, and so does a file that lists images.

    Paths alone are sorted and taken once each, as `find_images` does; what files list comes after them.
    """
    paths = [image for image in images if isinstance(image, str | Path)]
    if len(paths) == len(images):
        listed = {path: sources for path in dict.fromkeys(paths) if (sources := _listed(path)) is not None}
        single = [path for path in paths if path not in listed]
        files = find_images(single) if single or not listed else []
        return [*map(FileImage, files), *chain.from_iterable(listed.values())]
    found: list[Decodable] = []
    for i, image in enumerate(images):
        if isinstance(image, str | Path):
            sources = _listed(image)
            found += map(FileImage, find_images(image)) if sources is None else sources
        else:
            found.append(_in_memory(image, _name(i, len(images))))
    return found


def _name(i: int, n: int) -> str:
    return f"image {i + 1} of {n}" if n > 1 else "the image"


def _in_memory(image: Any, name: str) -> Decodable:
    if isinstance(image, Image.Image):
        return PillowImage(image, name)
    if not _is_pixels(image):
        return BytesImage(bytes(image), name)
    values = without_torch(image)
    pixels = images_from_array(values[None] if values.ndim == 2 else values)
    if len(pixels) != 1:
        raise DataError(f"{name} is an array of {len(pixels)} images; in a list each array is one image.")
    return PixelImage(pixels[0], name)


def _listed(path: str | Path) -> Sequence[Decodable] | None:
    """The images that a file or folder lists in some way; None where it is an image or a folder of such."""
    from homefold.data.registry import listed_images  # which knows this file

    return listed_images(path)


def paths_of(sources: Sequence[Decodable]) -> tuple[str, ...]:
    """The path of each that lies in some file, and empty text for those in memory; nothing where all are."""
    paths = tuple(
        "" if isinstance(source, BytesImage | PillowImage | PixelImage) else source.path for source in sources
    )
    return paths if any(paths) else ()


def find_images(paths: Sequence[str | Path] | str | Path) -> list[Path]:
    """The image files that the arguments name, sorted, each once.

    Args:
        paths: files (taken whatever they are called), folders (searched to the bottom) and glob patterns.
    """
    arguments = [paths] if isinstance(paths, str | Path) else list(paths)
    if not arguments:
        raise DataError("No image was given: name files, folders or patterns such as 'photos/*.jpg'.")
    matches = [_matches(argument) for argument in arguments]
    if not all(matches):
        raise DataError(" ".join(_why_nothing(arguments[i]) for i, hits in enumerate(matches) if not hits))
    found: dict[str, Path] = {}
    for path in chain.from_iterable(matches):
        found.setdefault(os.path.abspath(path), path)
    return sorted(found.values())


def _images_below(folder: Path) -> list[Path]:
    return sorted(image for _, images, _ in walk([folder]) for image in images)


def _matches(argument: str | Path) -> list[Path]:
    path = given_path(argument)
    if os.path.isdir(path):
        return _images_below(path)
    if os.path.exists(path):
        if is_archive(path) or is_compressed_tar(path):
            raise DataError(
                f"{path} is an archive, and single images are not read from one: unpack it first. "
                "(homefold fit and evaluate read <domain>/<class>/<image> in a tar or zip as it is.)"
            )
        return [path]
    if "\0" in str(path):  # no name has one, and `glob` stumbles over it
        return []
    hits = _expanded(path)
    return [found for hit in hits for found in (_images_below(hit) if hit.is_dir() else [hit] if is_image(hit) else [])]


def _expanded(pattern: Path) -> list[Path]:
    """What a pattern matches; unlike `glob`'s, its `**` does not follow links round in circles."""
    parts, places = list(pattern.parts), [Path()]
    while parts and parts[-1] == "**":  # a folder stands for all in it
        parts.pop()
    while "**" in parts:
        at = parts.index("**")
        folders = [place for place in _matching(places, parts[:at]) if place.is_dir()]
        places, parts = [folder for folder, _, _ in walk(folders)], parts[at + 1 :]
    return _matching(places, parts)


def _matching(places: Sequence[Path], parts: Sequence[str]) -> list[Path]:
    """What lies in the places under names that match, one part of a path after the other."""
    if not parts:
        return list(places)
    return [Path(hit) for place in places for hit in glob.glob(os.path.join(glob.escape(str(place)), *parts))]


def _why_nothing(argument: str | Path) -> str:
    if os.path.isdir(given_path(argument)):
        return f"There are no images in the folder {argument} (looked for {', '.join(IMAGE_EXTENSIONS)})."
    if glob.has_magic(str(argument)):
        return f"No image matches the pattern {argument}."
    return f"There is no file or folder {argument}."
