"""The images of one shard, a bounded number at a time, wherever they lie."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from homefold.bulk.places import GoneError, Place, is_address
from homefold.bulk.plan import Piece, Shard
from homefold.bulk.sources import base_of, opened_parquet, stamp_of
from homefold.data import BadImageError
from homefold.data.archives import ArchiveImage, FileImage
from homefold.data.datasets.webdataset import read_webdataset
from homefold.data.given import BytesImage
from homefold.data.index import Decodable, LoadRequest
from homefold.data.paths import given_path
from homefold.data.rows import cell_text
from homefold.errors import DataError
from homefold.store.locking import locked

__all__ = ["Entry", "ShardReader", "shard_reader"]

_IMAGES_AT_ONCE = 512  # as many as `homefold predict` has in memory
_BYTES_AT_ONCE = 1 << 26
_FETCHED_AT_ONCE = 16
_SCRATCH = "homefold-bulk-"


class Entry(NamedTuple):
    """One image.

    Args:
        name: what its answer calls it.
        image: it, where it can be decoded.
        fault: why not; empty where it can.
        place: where it has yet to be fetched from.
    """

    name: str
    image: Decodable | None = None
    fault: str = ""
    place: Place | None = None


@dataclass(frozen=True)
class ShardReader:
    """Finds the images of shards.

    Args:
        folder: where relative paths start.
        base: the folder that addresses begin with; None where images are files of this machine.
        scratch: an empty folder for what is fetched as a whole, a file at a time.
    """

    folder: Path
    base: Place | None
    scratch: Path

    def chunks(self, shard: Shard, at_once: int = _IMAGES_AT_ONCE) -> Iterator[list[Entry]]:
        """All images of a shard in their order, so many at a time; fewer where their bytes are many."""
        chunk, size = list[Entry](), 0
        for entry in self._entries(shard) if self.base is None else _fetched(self._entries(shard)):
            chunk.append(entry)
            size += len(entry.image.content) if isinstance(entry.image, BytesImage) else 0
            if len(chunk) == at_once or size >= _BYTES_AT_ONCE:
                yield chunk
                chunk, size = [], 0
        if chunk:
            yield chunk

    def _entries(self, shard: Shard) -> Iterator[Entry]:
        for listed in shard.images:
            yield Entry(listed.name, fault=listed.fault) if listed.fault else self._image_at(listed.name)
        for piece in shard.pieces:
            with _names_it(piece):
                yield from self._in_parquet(piece) if piece.stop else self._in_tar(piece)

    def _image_at(self, name: str) -> Entry:
        if not is_address(name):
            return Entry(name, FileImage(self.folder / name))
        if self.base is None:
            raise DataError(f"{name} stands in a list of this machine; put the list beside the images.")
        return Entry(name, place=self.base.named(name))

    def _in_parquet(self, piece: Piece) -> Iterator[Entry]:
        name = piece.file.name
        self._require_unchanged(piece)
        stored = opened_parquet(name if self.base else str(self.folder / name), self.base)
        rows = range(piece.start, piece.stop)
        for row, value in zip(rows, stored.stream(rows), strict=True):
            if not stored.image_column:
                yield self._named_by(cell_text(value), name, row)
            elif value:
                yield Entry(f"{name}[{row}]", BytesImage(value, name))
            else:
                yield Entry(f"{name}[{row}]", fault="has no bytes")

    def _named_by(self, path: str, listed_in: str, row: int) -> Entry:
        """The image that a row of a manifest names, relative to the file."""
        if not path.strip():
            return Entry(path or f"{listed_in}, row {row}", fault="path is empty")
        if is_address(path):
            return self._image_at(path)
        if self.base is None:
            return self._image_at(os.path.normpath(os.path.join(os.path.dirname(listed_in), path)))
        place = self.base.named(listed_in).beside(path)
        return Entry(place.address, place=place)

    def _in_tar(self, piece: Piece) -> Iterator[Entry]:
        name = piece.file.name
        self._require_unchanged(piece)
        with self._at_hand(name) as tar:
            for row in read_webdataset(LoadRequest(root=tar)).rows:
                assert isinstance(row.source, ArchiveImage)
                entry = Entry(f"{name}/{row.source.member}", row.source, row.fault)
                # What was fetched is gone before the last of its images is decoded.
                yield entry if self.base is None or entry.fault else _in_memory(entry.name, row.source)

    @contextmanager
    def _at_hand(self, name: str) -> Iterator[Path]:
        """A file of this machine; one that lies elsewhere is fetched, and deleted after."""
        if self.base is None:
            yield self.folder / name
            return
        copy = self.scratch / "fetched.tar"
        try:
            yield self.base.named(name).fetch(copy)
        finally:
            copy.unlink(missing_ok=True)

    def _require_unchanged(self, piece: Piece) -> None:
        name = piece.file.name
        if self.base is not None:
            now = self.base.named(name).stamp()
        elif not (now := stamp_of(self.folder / name)):
            raise GoneError(f"There is no file {name} any more.")
        if now != piece.file.stamp:
            raise DataError(
                f"{name} changed since the job began; put the old one back with its time, or begin with another --out."
            )


def _in_memory(name: str, image: ArchiveImage) -> Entry:
    try:
        return Entry(name, BytesImage(image.content(), name))
    except BadImageError as error:
        return Entry(name, fault=error.reason)


@contextmanager
def _names_it(piece: Piece) -> Iterator[None]:
    """Inside, what is wrong with a file is told by the name that a person knows."""
    try:
        yield
    except DataError as error:
        if piece.file.name in str(error):
            raise
        raise DataError(f"{piece.file.name}: {error}") from None


def _fetched(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The same with the bytes of images that lie elsewhere; one that is gone has a fault, another error raises."""
    executor, on_their_way = ThreadPoolExecutor(_FETCHED_AT_ONCE), deque[Future[Entry]]()
    try:
        for entry in entries:
            on_their_way.append(executor.submit(_fetch, entry))
            if len(on_their_way) == _FETCHED_AT_ONCE:
                yield on_their_way.popleft().result()
        while on_their_way:
            yield on_their_way.popleft().result()
    finally:
        executor.shutdown(cancel_futures=True)


def _fetch(entry: Entry) -> Entry:
    if entry.place is None:
        return entry
    try:
        return Entry(entry.name, BytesImage(entry.place.content(), entry.name))
    except GoneError:
        return Entry(entry.name, fault="is not there")


@contextmanager
def shard_reader(source: str, folder: Path) -> Iterator[ShardReader]:
    """Reads shards inside the block, after which nothing that was fetched is left.

    Args:
        source: the path or address that the images were listed at.
        folder: where relative paths start, in whatever folder a worker runs.
    """
    if not is_address(source) and not _is_there(folder / given_path(source)):
        raise DataError(f"{source} is not there for this worker; every machine has to see it at the same path.")
    _tidy(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=_SCRATCH) as scratch, _held(Path(scratch)):
        yield ShardReader(folder, base_of(source), Path(scratch))


def _is_there(path: Path) -> bool:
    return path.exists() or "{" in path.name


@contextmanager
def _held(folder: Path) -> Iterator[bool]:
    """Hold the lock of a folder inside the block; whoever finds it free knows that its owner has ended."""
    if os.name != "posix":  # where folders have none
        yield True
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        with locked(descriptor, wait=False) as held:
            yield held
    finally:
        os.close(descriptor)


def _tidy(temporary: Path) -> None:
    """Delete what workers that were killed had fetched."""
    if os.name != "posix":
        return
    left: Iterable[Path] = list(temporary.glob(f"{_SCRATCH}*"))
    for folder in left:
        try:
            with _held(folder) as is_free:
                if is_free:
                    shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # another worker was faster, or it is another person's
            continue
