"""The shards of a job: which images each has, decided once and kept beside the answers."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from homefold.bulk.sources import Listed, Source, SourceFile
from homefold.data.stored_images import require_pyarrow
from homefold.errors import DataError
from homefold.store.files import read_json, write_atomically, write_json

__all__ = ["Piece", "Plan", "Shard", "make_plan", "read_plan"]

_LIST, _FILES = "images.parquet", "files.json"


@dataclass(frozen=True)
class Piece:
    """Rows of a parquet file from `start` to `stop`, or a whole tar."""

    file: SourceFile
    start: int = 0
    stop: int = 0


@dataclass(frozen=True)
class Shard:
    """The images of one file of answers: those listed, or those of the pieces of files."""

    number: int
    images: tuple[Listed, ...] = ()
    pieces: tuple[Piece, ...] = ()


@dataclass(frozen=True)
class Plan:
    """All shards.

    Args:
        folder: where it is kept.
        digest: changes with the source.
        sizes: how many images each shard has; 0 for a tar, which tells when it is read.
    """

    folder: Path
    digest: str
    sizes: tuple[int, ...]

    def shards(self, numbers: Iterator[int]) -> Iterator[Shard]:
        """Those with these numbers, read one after the other."""
        if (self.folder / _LIST).exists():
            yield from self._listed(numbers)
            return
        pieces = [_piece(value) for value in read_json(self.folder / _FILES)]
        whole = list(_cut(pieces, self.sizes))
        for number in numbers:
            yield Shard(number, pieces=whole[number])

    def _listed(self, numbers: Iterator[int]) -> Iterator[Shard]:
        from pyarrow import parquet

        with parquet.ParquetFile(self.folder / _LIST) as stored:
            for number in numbers:
                rows = stored.read_row_group(number).to_pydict()
                listed = map(Listed, map(os.fsdecode, rows["path"]), rows["fault"])
                yield Shard(number, images=tuple(listed))


def make_plan(source: Source, folder: Path, shard_size: int) -> Plan:
    """Cut a source into shards and keep them in a folder; a tar is a shard by itself."""
    folder.mkdir(parents=True, exist_ok=True)
    if source.form == "images":
        return _list_images(source, folder, shard_size)
    files = source.files()
    sizes = tuple(0 for _ in files) if source.form == "tars" else _even(sum(file.rows for file in files), shard_size)
    if not sizes:
        raise DataError(f"There are no images in {source.address}.")
    write_json(folder / _FILES, [asdict(file) for file in files])
    return Plan(folder, source.digest(), sizes)


def read_plan(folder: Path, source: dict[str, Any]) -> Plan:
    """The shards that `make_plan` made, of which the job knows digest, images, shards and their size."""
    total, shards = source["images"], source["shards"]
    return Plan(folder, source["digest"], _even(total, source["shard_size"]) if total else (0,) * shards)


def _even(total: int, size: int) -> tuple[int, ...]:
    return tuple(min(size, total - start) for start in range(0, total, size))


def _list_images(source: Source, folder: Path, shard_size: int) -> Plan:
    """Write the list of images, a row group for each shard."""
    pyarrow = require_pyarrow(folder)
    from pyarrow import parquet

    schema = pyarrow.schema({"path": pyarrow.binary(), "fault": pyarrow.string()})
    digest, sizes, images = hashlib.sha256(), [], source.images()
    with write_atomically(folder / _LIST) as temporary, parquet.ParquetWriter(temporary, schema) as writer:
        while part := list(islice(images, shard_size)):
            for entry in part:
                digest.update(repr(entry).encode("utf-8", "surrogateescape"))
            columns = [[os.fsencode(entry.name) for entry in part], [entry.fault for entry in part]]
            writer.write_table(pyarrow.table(columns, schema=schema), row_group_size=shard_size)
            sizes.append(len(part))
    if not sizes:
        (folder / _LIST).unlink()
        raise DataError(f"There are no images in {source.address}.")
    return Plan(folder, digest.hexdigest()[:24], tuple(sizes))


def _piece(value: dict[str, Any]) -> Piece:
    file = SourceFile(**value)
    return Piece(file, 0, file.rows)


def _cut(pieces: list[Piece], sizes: tuple[int, ...]) -> Iterator[tuple[Piece, ...]]:
    """The pieces of each shard; rows of several files may come together."""
    if not any(sizes):
        yield from ((piece,) for piece in pieces)
        return
    waiting = list(reversed(pieces))
    for size in sizes:
        found: list[Piece] = []
        while size:
            piece = waiting.pop()
            taken = min(size, piece.stop - piece.start)
            if taken:
                found.append(Piece(piece.file, piece.start, piece.start + taken))
            if piece.start + taken < piece.stop:
                waiting.append(Piece(piece.file, piece.start + taken, piece.stop))
            size -= taken
        yield tuple(found)
