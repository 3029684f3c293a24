"""One folder of the cache: an array of decoded images, and the index that says what they are."""

from __future__ import annotations

import io
import json
import os
import shutil
import zlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO, Annotated, Any

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from homefold.store.files import write_atomically

try:
    import fcntl
except ImportError:  # Windows refuses to delete or rename a file that is mapped, which protects it as well
    fcntl = None  # type: ignore[assignment]

__all__ = ["IMAGES_FILE", "CacheEntry", "Piece", "checksum", "create_array", "cut_to", "read_entry", "write_index"]

IMAGES_FILE, _INDEX_FILE = "images.npy", "index.json"
_FORMAT = 3
_STAMPS_AT_MOST = 8
_AT_ONCE = 1 << 26


def create_array(file: IO[bytes], n: int, size: tuple[int, int]) -> np.memmap[Any, Any]:
    """An array of `n` images in an empty open file, with room on the disk for all of it.

    A full disk is told now: a mapped page that finds no room later ends the process without a word.
    """
    shape = (n, *size, 3)
    header = _header(shape)
    total = len(header) + int(np.prod(shape))
    file.write(header)
    file.flush()
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, total)
    elif shutil.disk_usage(Path(file.name).parent).free < total:
        raise OSError(28, "No space left on device")
    else:
        file.truncate(total)
    return np.memmap(file, dtype=np.uint8, mode="r+", offset=len(header), shape=shape)


def cut_to(file: IO[bytes], rows: int, size: tuple[int, int]) -> None:
    """Keep the first `rows` images of the file, and nothing after them."""
    header = _header((rows, *size, 3))
    file.seek(0)
    file.write(header)
    file.truncate(len(header) + rows * size[0] * size[1] * 3)


def _header(shape: tuple[int, ...]) -> bytes:
    """The head of a `.npy` file, whose length does not depend on how many images there are."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.getvalue()


def checksum(images: np.ndarray) -> int:
    """CRC-32 of the pixels: it finds every damage that a disk does, at the speed of memory (several GB/s)."""
    pixels, found = images.reshape(-1), 0
    for start in range(0, len(pixels), _AT_ONCE):
        found = zlib.crc32(pixels[start : start + _AT_ONCE].data, found)
    return found


@dataclass(frozen=True)
class Piece:
    """The images of one domain inside an entry.

    Args:
        key: a hash of all that the pixels depend on: the bytes of the images and the settings.
        domain, rows, checksum: the domain's name for people, how many images, and the checksum of their pixels.
        bad: `(position among the domain's files, reason)` of those that could not be decoded and have no row.
        stamps: hashes of places, sizes and times at which these images were met, the latest last.
    """

    key: str
    domain: str
    rows: int
    checksum: int
    bad: tuple[tuple[int, str], ...] = ()
    stamps: tuple[str, ...] = ()

    def answers_to(self, key: str) -> bool:
        """Whether a key of either kind is one of its own."""
        return key == self.key or key in self.stamps


@dataclass(frozen=True)
class CacheEntry:
    """One folder of the cache.

    Args:
        names: of the datasets that it serves, the one it was built for first.
        root: where its files lay when it was built.
        size, pieces: `(height, width)` of its images, and what they are, in the order of the rows.
        bytes, used: what it takes on disk, and when it was last used, in seconds since 1970.
    """

    folder: Path
    names: Annotated[tuple[str, ...], Field(min_length=1)]
    root: str
    size: tuple[int, int]
    pieces: tuple[Piece, ...]
    bytes: int
    used: float

    @property
    def name(self) -> str:
        """The dataset that it was built for."""
        return self.names[0]

    def position_of(self, keys: Sequence[str]) -> int | None:
        """Where the pieces that answer to `keys` stand, one after the other; None if they do not."""
        starts = range(len(self.pieces) - len(keys) + 1)
        return next((i for i in starts if all(self.pieces[i + j].answers_to(key) for j, key in enumerate(keys))), None)

    def images(self, position: int, pieces: int) -> np.ndarray | None:
        """The images of so many pieces from `position` on, mapped; None if they are damaged or gone.

        The entry cannot be deleted as long as the array lives: the lock is on the open file, of which the map keeps a
        copy (filelock's end with their own object). Writing to the array never reaches the file.
        """
        ends = np.cumsum([0, *(piece.rows for piece in self.pieces)]).tolist()
        shape = (ends[-1], *self.size, 3)
        header = _header(shape)
        try:
            with (self.folder / IMAGES_FILE).open("rb") as file:
                if fcntl is not None:
                    fcntl.flock(file, fcntl.LOCK_SH)
                complete = os.fstat(file.fileno()).st_size == len(header) + int(np.prod(shape))
                if not complete or file.read(len(header)) != header:
                    return None
                mapped = np.memmap(file, dtype=np.uint8, mode="c", offset=len(header), shape=shape)
        except OSError:
            return None
        for i in range(position, position + pieces):
            if checksum(mapped[ends[i] : ends[i + 1]]) != self.pieces[i].checksum:
                return None
        return mapped[ends[position] : ends[position + pieces]]

    def note_use(self) -> None:
        """It was used now."""
        with suppress(OSError):  # a cache that may only be read
            os.utime(self.folder / _INDEX_FILE)

    def remember(self, name: str, position: int, stamps: Sequence[str]) -> None:
        """Note that the pieces from `position` on were met under these stamps, so that they need not be read again."""
        pieces = list(self.pieces)
        for i, stamp in enumerate(stamps, start=position):
            kept = [known for known in pieces[i].stamps if known != stamp]
            pieces[i] = replace(pieces[i], stamps=(*kept, stamp)[-_STAMPS_AT_MOST:])
        names = tuple(dict.fromkeys((*self.names, name)))
        with suppress(OSError, ValueError):  # among them that it was deleted meanwhile
            index = json.loads((self.folder / _INDEX_FILE).read_text(encoding="utf-8"))
            _write(self.folder, {**index, "names": names, "pieces": [asdict(piece) for piece in pieces]})


def read_entry(folder: Path) -> CacheEntry | None:
    """The entry in a folder; None if there is none that can be used."""
    try:
        if not all((folder / name).is_file() for name in (_INDEX_FILE, IMAGES_FILE)):
            return None  # a pipe would be waited for
        status = (folder / _INDEX_FILE).stat()
        index = json.loads((folder / _INDEX_FILE).read_text(encoding="utf-8"))
        if index["format"] != _FORMAT:
            return None
        taken = (folder / IMAGES_FILE).stat().st_size + status.st_size
        return CacheEntry(folder=folder, bytes=taken, used=status.st_mtime, **index)
    # Whatever is wrong with it, it can be made again.
    except Exception:
        return None


def write_index(folder: Path, *, name: str, root: Path, settings: dict[str, Any], pieces: Sequence[Piece]) -> None:
    """Write what `read_entry` reads."""
    index = {"format": _FORMAT, "names": [name], "root": str(root), **settings}
    _write(folder, {**index, "pieces": [asdict(piece) for piece in pieces]})


def _write(folder: Path, index: dict[str, Any]) -> None:
    # ASCII, because the name of a folder on Linux need not be text.
    with write_atomically(folder / _INDEX_FILE) as temporary:
        temporary.write_text(json.dumps(index, indent=1))
