"""One image wherever it lies (a file, a place inside a tar or zip, a row of an array), read without unpacking."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple, Protocol, overload

import numpy as np

from homefold.data.images import BadImageError, Resize, decode_image, resize_images
from homefold.data.paths import special_kind
from homefold.errors import DataError

__all__ = ["ArchiveImage", "ArrayImage", "ArrayImages", "FileImage", "ImageSource", "Stamp", "file_stamp"]

LARGEST_BYTES = 1 << 31
"""Larger members of an archive are not read: 200 megapixels of sixteen bits, uncompressed, take less."""

_ZIP_LOCAL_HEADER = struct.Struct("<4s22xHH")
_hasher = partial(hashlib.blake2b, digest_size=16)


class Stamp(NamedTuple):
    """What tells whether an image is still the one that was decoded.

    Args:
        text: differs whenever the image's bytes may differ.
        changed_ns: when they last changed, as far as the file system knows.
    """

    text: str
    changed_ns: int


class ImageSource(Protocol):
    """An image that has not been decoded yet; every method may be called from several threads at once."""

    @property
    def path(self) -> str:
        """Where it lies, for people."""

    def stamp(self) -> Stamp:
        """Its place, size and times, without reading it."""

    def digest(self) -> str:
        """A hash of its stored bytes; empty when they cannot be read."""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        """`(height, width, 3)` uint8; raises `BadImageError`. The arguments are `decode_image`'s."""


def file_stamp(path: Path) -> Stamp:
    """The stamp of a whole file: its absolute path, size and times; a missing file has one too.

    The time of the last change of the *entry* (ctime) is in it because tools that restore the time of the content, such
    as `cp -p` and `rsync -t`, cannot restore that one.
    """
    name = os.path.abspath(path)
    try:
        status = os.stat(name)
    except OSError as error:
        return Stamp(f"{name}|{error.errno}", 0)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return Stamp(f"{name}|{status.st_size}|{times[0]}|{times[1]}", max(times))


@dataclass(frozen=True, slots=True)
class FileImage:
    """An image file.

    Args:
        file: where it lies.
    """

    file: Path

    @property
    def path(self) -> str:
        """The file's path."""
        return str(self.file)

    def stamp(self) -> Stamp:
        """As in `ImageSource`."""
        return file_stamp(self.file)

    def digest(self) -> str:
        """As in `ImageSource`."""
        if special_kind(self.file):
            return ""
        try:
            with self.file.open("rb") as file:
                return hashlib.file_digest(file, _hasher).hexdigest()
        except OSError:
            return ""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        """As in `ImageSource`."""
        return decode_image(self.file, size=size, resize=resize, max_megapixels=max_megapixels)


@dataclass(frozen=True, slots=True)
class ArchiveImage:
    """An image inside an uncompressed tar or a zip, found by its place in the file.

    Every read opens the archive anew: no file position is shared between threads.

    Args:
        archive: the tar or zip.
        archive_stamp: the archive's own, taken before its table was read.
        member: its name inside.
        offset: where its bytes begin; in a zip, where its local header does.
        stored_bytes: how many bytes it takes up there.
        in_zip: whether a zip's local header stands before the bytes.
        unpacked_bytes: how many bytes it has unpacked, where they are compressed; None where they are not.
        checksum: CRC-32 of the unpacked bytes; None in a tar, which has none.
        fault: why it cannot be read, where that is known already, to stand after its name.
    """

    archive: Path
    archive_stamp: Stamp
    member: str
    offset: int
    stored_bytes: int
    in_zip: bool = False
    unpacked_bytes: int | None = None
    checksum: int | None = None
    fault: str = ""

    @property
    def path(self) -> str:
        """The archive's path with the member's name behind it."""
        return f"{self.archive}/{self.member}"

    def stamp(self) -> Stamp:
        """As in `ImageSource`; an archive that changed since its table was read is an error."""
        now = file_stamp(self.archive)
        if now != self.archive_stamp:
            raise DataError(f"{self.archive} changed while it was being read; start again when it is complete.")
        return Stamp(f"{now.text}|{self.member}|{self.offset}|{self.stored_bytes}|{self.checksum}", now.changed_ns)

    def digest(self) -> str:
        """As in `ImageSource`."""
        try:
            return _hasher(self.content()).hexdigest()
        except BadImageError:
            return ""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        """As in `ImageSource`."""
        content = io.BytesIO(self.content())
        return decode_image(content, size=size, resize=resize, max_megapixels=max_megapixels, name=self.path)

    def content(self) -> bytes:
        """The member's bytes, unpacked; raises `BadImageError`."""
        if self.fault:
            raise BadImageError(self.path, self.fault)
        size = max(self.stored_bytes, self.unpacked_bytes or 0)
        if size > LARGEST_BYTES:
            raise BadImageError(self.path, f"is too large for an image ({size} bytes)")
        try:
            with self.archive.open("rb") as file:
                file.seek(self.offset)
                if self.in_zip:
                    self._skip_local_header(file)
                content = file.read(self.stored_bytes)
        except BadImageError:
            raise
        except OSError as error:
            raise BadImageError(self.path, f"cannot be read ({error.strerror or error})") from None
        except (OverflowError, ValueError):
            raise BadImageError(self.path, f"is damaged (it should lie at byte {self.offset})") from None
        if len(content) < self.stored_bytes:
            raise BadImageError(self.path, "is cut off: the archive ends before it does")
        return self._unpacked(content)

    def _skip_local_header(self, file: io.BufferedReader) -> None:
        header = file.read(_ZIP_LOCAL_HEADER.size)
        if len(header) < _ZIP_LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
            raise BadImageError(self.path, "is damaged (the zip's header for it is not where it should be)")
        _, name_bytes, extra_bytes = _ZIP_LOCAL_HEADER.unpack(header)
        file.seek(name_bytes + extra_bytes, os.SEEK_CUR)

    def _unpacked(self, content: bytes) -> bytes:
        if self.unpacked_bytes is not None:
            content = self._inflated(content, self.unpacked_bytes)
        if self.checksum is not None and zlib.crc32(content) != self.checksum:
            raise BadImageError(self.path, "is damaged (its checksum is wrong)")
        return content

    def _inflated(self, content: bytes, size: int) -> bytes:
        """No more than `size` bytes: a few can unfold to any number."""
        inflater = zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        try:
            unpacked = inflater.decompress(content, max_length=size + 1)
        except zlib.error as error:
            raise BadImageError(self.path, f"is damaged ({error})") from None
        if len(unpacked) != size:
            raise BadImageError(self.path, f"is damaged (it does not unfold to the {size} bytes it should have)")
        return unpacked


@dataclass(frozen=True, slots=True)
class ArrayImage:
    """One image of an array that some file holds.

    Args:
        images: the array it stands in.
        row: where.
    """

    images: ArrayImages
    row: int

    @property
    def path(self) -> str:
        """The file's path with the row behind it."""
        return f"{self.images.file}[{self.images.key}{self.images.first + self.row}]"

    def stamp(self) -> Stamp:
        """As in `ImageSource`."""
        of_file = self.images.stamp
        return Stamp(f"{of_file.text}|{self.images.key}|{self.images.first + self.row}", of_file.changed_ns)

    def digest(self) -> str:
        """As in `ImageSource`."""
        image = np.ascontiguousarray(self.images.array[self.row])
        # The shape too: the bytes of a 2×8 array are those of a 4×4 one.
        return _hasher(f"{image.shape}|".encode() + image.tobytes()).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        """As in `ImageSource`."""
        image = np.asarray(self.images.array[self.row])
        colour = np.ascontiguousarray(
            np.broadcast_to(image[..., None], (*image.shape, 3)) if image.ndim == 2 else image
        )
        return colour if size is None else resize_images(colour[None], size, resize)[0]


class ArrayImages(Sequence[ArrayImage]):
    """The images of an array, each one made when it is asked for; the array is read when its pixels are.

    Args:
        file: where the array lies.
        n: how many images it has.
        read: gives the array, `(n, height, width)` or `(n, height, width, 3)` uint8.
        key: names the array inside the file, where there are several.
        first: the file's row that is row 0 here.
    """

    def __init__(self, file: Path, n: int, read: Callable[[], np.ndarray], *, key: str = "", first: int = 0) -> None:
        self.file, self.n, self.key, self.first = file, n, key, first
        self._read = read

    @property
    def stamp(self) -> Stamp:
        """The file's, taken anew."""
        return file_stamp(self.file)

    @cached_property
    def array(self) -> np.ndarray:
        """All images."""
        array = self._read()
        if array.ndim == 4 and array.shape[-1] == 1:
            array = array[..., 0]
        if len(array) != self.n or array.dtype != np.uint8 or (array.ndim != 3 and array.shape[3:] != (3,)):
            raise DataError(
                f"{self.file} was expected to hold {self.n} uint8 images of shape (height, width) or "
                f"(height, width, 3); it holds {array.dtype} {array.shape}. Save the images in that form."
            )
        return array

    def __len__(self) -> int:
        return self.n

    @overload
    def __getitem__(self, row: int) -> ArrayImage: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[ArrayImage]: ...
    def __getitem__(self, row: int | slice) -> ArrayImage | Sequence[ArrayImage]:
        if isinstance(row, slice):
            return [ArrayImage(self, i) for i in range(*row.indices(self.n))]
        if not -self.n <= row < self.n:
            raise IndexError(row)
        return ArrayImage(self, row % self.n)
