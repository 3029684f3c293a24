"""One folder of the cache: an array of decoded images, and the index that says what they are."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from homefold.data.cache_array import checksum, map_array

__all__ = ["IMAGES_FILE", "INDEX_FILE", "CacheEntry", "Piece", "read_entry", "write_index"]

IMAGES_FILE, INDEX_FILE = "images.npy", "index.json"
_FORMAT = 3
_STAMPS_AT_MOST = 8


@dataclass(frozen=True)
class Piece:
    """The images of one domain inside an entry.

    Args:
        key: a hash of all that the pixels depend on: the bytes of the images and the settings.
        domain: the domain's name, for people.
        rows: how many images.
        checksum: of its pixels.
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
        folder: where it lies.
        names: of the datasets that it serves, the one it was built for first.
        root: where its files lay when it was built.
        size: `(height, width)` of its images.
        pieces: what it holds, in the order of the rows.
        bytes: what it takes on disk.
        used: when it was last used, in seconds since 1970.
    """

    folder: Path
    names: tuple[str, ...]
    root: str
    size: tuple[int, int]
    pieces: tuple[Piece, ...]
    bytes: int
    used: float

    @property
    def name(self) -> str:
        """The dataset that it was built for."""
        return self.names[0]

    def rows_before(self, position: int) -> int:
        """The first row of the piece at `position`."""
        return sum(piece.rows for piece in self.pieces[:position])

    def position_of(self, keys: Sequence[str]) -> int | None:
        """Where the pieces that answer to `keys` stand, one after the other; None if they do not."""
        starts = range(len(self.pieces) - len(keys) + 1)
        return next((i for i in starts if all(self.pieces[i + j].answers_to(key) for j, key in enumerate(keys))), None)

    def images(self, position: int, pieces: int) -> np.ndarray | None:
        """The images of so many pieces from `position` on, mapped; None if they are damaged or gone.

        The entry cannot be deleted as long as the array lives.
        """
        mapped = map_array(self.folder / IMAGES_FILE, (self.rows_before(len(self.pieces)), *self.size, 3))
        if mapped is None:
            return None
        for i in range(position, position + pieces):
            if checksum(mapped[self.rows_before(i) : self.rows_before(i + 1)]) != self.pieces[i].checksum:
                return None
        return mapped[self.rows_before(position) : self.rows_before(position + pieces)]

    def note_use(self) -> None:
        """It was used now."""
        with suppress(OSError):  # a cache that may only be read
            os.utime(self.folder / INDEX_FILE)

    def remember(self, name: str, position: int, stamps: Sequence[str]) -> None:
        """Note that the pieces from `position` on were met under these stamps, so that they need not be read again."""
        pieces = list(self.pieces)
        for i, stamp in enumerate(stamps, start=position):
            kept = [known for known in pieces[i].stamps if known != stamp]
            pieces[i] = replace(pieces[i], stamps=(*kept, stamp)[-_STAMPS_AT_MOST:])
        names = tuple(dict.fromkeys((*self.names, name)))
        with suppress(OSError, ValueError):
            record = json.loads((self.folder / INDEX_FILE).read_text(encoding="utf-8"))
            _write(self.folder, {**record, "names": names, "pieces": [asdict(piece) for piece in pieces]})


def read_entry(folder: Path) -> CacheEntry | None:
    """The entry in a folder; None if there is none that can be used."""
    try:
        status = (folder / INDEX_FILE).stat()
        record = json.loads((folder / INDEX_FILE).read_text(encoding="utf-8"))
        if record["format"] != _FORMAT:
            return None
        first, *others = record["names"]
        height, width = record["size"]
        return CacheEntry(
            folder=folder,
            names=(str(first), *map(str, others)),
            root=str(record["root"]),
            size=(int(height), int(width)),
            pieces=tuple(_piece(piece) for piece in record["pieces"]),
            bytes=(folder / IMAGES_FILE).stat().st_size + status.st_size,
            used=status.st_mtime,
        )
    # Whatever is wrong with it, it can be made again.
    except Exception:
        return None


def _piece(record: dict[str, Any]) -> Piece:
    bad = tuple((int(position), str(reason)) for position, reason in record["bad"])
    return Piece(
        key=str(record["key"]),
        domain=str(record["domain"]),
        rows=int(record["rows"]),
        checksum=int(record["checksum"]),
        bad=bad,
        stamps=tuple(map(str, record["stamps"])),
    )


def write_index(folder: Path, *, name: str, root: Path, settings: dict[str, Any], pieces: Sequence[Piece]) -> None:
    """Write what `read_entry` reads.

    Args:
        folder: the entry's.
        name: of the dataset.
        root: where its files lie.
        settings: size, resize and limits.
        pieces: in the order of the rows.
    """
    record = {"format": _FORMAT, "names": [name], "root": str(root), **settings}
    _write(folder, {**record, "pieces": [asdict(piece) for piece in pieces]})


def _write(folder: Path, record: dict[str, Any]) -> None:
    """Replace the index at once; a folder that was deleted meanwhile is not made again."""
    temporary = folder / f".{INDEX_FILE}.{secrets.token_hex(8)}"
    try:
        with temporary.open("w", encoding="utf-8") as file:
            # ASCII, because the name of a folder on Linux need not be text.
            json.dump(record, file, ensure_ascii=True, indent=1)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(folder / INDEX_FILE)
    finally:
        temporary.unlink(missing_ok=True)
