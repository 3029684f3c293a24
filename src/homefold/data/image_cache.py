"""Decoded images on disk, mapped into memory by later runs.

An entry is a folder with `images.npy` (uint8) and `index.json`, and holds one or more *pieces*: the images of one
domain in one size. Its key is a hash of the bytes of its images and of every setting that decides a pixel, so what it
holds cannot be out of date, and a copy of the images in another place or archive finds it too. Bytes are not read again
where images of the same place, size and times were met before. Labels, paths and splits are not in it: finding the
images, which the key needs anyway, gives them. Each piece has a checksum of its pixels, which is compared when it is
mapped or copied.

A new set of domains takes the pieces that other entries have from there and decodes only the rest; a domain that is not
asked for is never decoded. An entry is built beside its place and renamed there when it is complete.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

import numpy as np

from homefold.data.cache_array import checksum, create_array, cut_to
from homefold.data.cache_directory import cache_directory
from homefold.data.cache_entry import IMAGES_FILE, CacheEntry, Piece, read_entry, write_index
from homefold.data.cache_keys import KeyKind, content_keys, stamp_keys
from homefold.data.cache_limit import cache_limit_bytes
from homefold.data.decoding import check_bad, compact, decode_into
from homefold.data.file_locks import lock_exclusively, try_lock_exclusively, unlock
from homefold.data.images import BadImageError, Resize
from homefold.data.index import ImageIndex
from homefold.data.sources import ImageSource
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter

__all__ = ["CacheEntry", "CacheUnavailableError", "ImageCache", "KeyKind", "Piece"]

_BUILDING = ".building-"


class CacheUnavailableError(Exception):
    """The cache cannot be used; the images can."""


@dataclass(frozen=True)
class _Wanted:
    """A request, with a key for each of its domains: by their bytes, or by their stamps as long as nobody read them."""

    index: ImageIndex
    size: tuple[int, int]
    resize: Resize
    max_megapixels: float
    keys: tuple[str, ...]
    stamps: tuple[str, ...]

    def sources(self, domain: int) -> list[ImageSource]:
        return [self.index.sources[i] for i in self.index.positions_of(domain)]

    @property
    def largest_bytes(self) -> int:
        return len(self.index) * self.size[0] * self.size[1] * 3


class ImageCache:
    """The decoded images that are kept.

    Args:
        directory: where; `cache_directory()` by default.
        limit_bytes: how much they may take; `cache_limit_bytes()` by default.
    """

    def __init__(self, directory: Path | None = None, limit_bytes: int | None = None) -> None:
        self.directory = (directory or cache_directory()) / "images"
        self._limit = limit_bytes
        self._parent = directory

    @property
    def limit_bytes(self) -> int:
        """How much the entries may take together."""
        return cache_limit_bytes(self._parent) if self._limit is None else self._limit

    def images(
        self,
        index: ImageIndex,
        *,
        size: tuple[int, int],
        resize: Resize,
        skip_bad: bool,
        workers: int | None,
        reporter: ProgressReporter,
        max_megapixels: float,
        cache_key: KeyKind = "times",
    ) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
        """The images of an index, mapped into memory; what is not there yet is decoded first.

        Args:
            index: the images wanted.
            size, resize, skip_bad, workers, reporter, max_megapixels: as in `load_folder`.
            cache_key: `"times"` does not read again what was met at the same place with the same size and times;
                `"content"` reads every byte every time.

        Returns:
            `(n, height, width, 3)` uint8; `(n,)` the position of each in the index; `(path, reason)` of the bad ones.
        """
        settings = {"size": list(size), "resize": resize, "max_megapixels": max_megapixels}
        stamps = stamp_keys(index, settings)
        wanted = _Wanted(index, size, resize, max_megapixels, keys=stamps, stamps=stamps)
        found = self._open(wanted, reporter) if cache_key == "times" else None
        if found is None:
            self._check_room(wanted)
            wanted = replace(wanted, keys=self._content_keys(wanted, settings, cache_key, workers, reporter))
            found = self._open(wanted, reporter)
        if found is None:
            self._build(wanted, settings, skip_bad, workers, reporter)
            found = self._open(wanted, reporter)
        if found is None:
            raise CacheUnavailableError(f"{self.directory} was emptied meanwhile.")
        images, pieces = found
        kept, skipped = _kept_and_skipped(index, pieces)
        check_bad([BadImageError(path, reason) for path, reason in skipped], len(index), skip_bad)
        return images, kept, skipped

    def _check_room(self, wanted: _Wanted) -> None:
        """Find out before anything is read in vain."""
        if wanted.largest_bytes > self.limit_bytes:
            raise CacheUnavailableError(
                f"they would take {wanted.largest_bytes / 1e9:.1f} GB, more than the cache's limit of "
                f"{self.limit_bytes / 1e9:.1f} GB (HOMEFOLD_CACHE_LIMIT, or homefold data cache --limit)."
            )
        with _disk_trouble(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)

    def _content_keys(
        self,
        wanted: _Wanted,
        settings: dict[str, Any],
        cache_key: KeyKind,
        workers: int | None,
        reporter: ProgressReporter,
    ) -> tuple[str, ...]:
        """A key by content for each domain, read only where its stamp is not known."""
        pieces = [piece for entry in self.entries() for piece in entry.pieces] if cache_key == "times" else []
        known = {stamp: piece.key for piece in pieces for stamp in piece.stamps}
        unknown = [domain for domain, stamp in enumerate(wanted.stamps) if stamp not in known]
        read = content_keys(wanted.index, unknown, settings, workers=workers, reporter=reporter) if unknown else {}
        self._check_unchanged(wanted, settings)
        return tuple(read.get(domain) or known[stamp] for domain, stamp in enumerate(wanted.stamps))

    def entries(self) -> list[CacheEntry]:
        """Every complete entry, the one used last first."""
        try:
            folders = [folder for folder in self.directory.iterdir() if not folder.name.startswith(".")]
        except OSError:
            return []
        found = [entry for entry in map(read_entry, folders) if entry is not None]
        return sorted(found, key=lambda entry: -entry.used)

    def clear(self, name: str | None = None) -> tuple[list[CacheEntry], list[CacheEntry]]:
        """Delete the entries of a dataset, or everything; those that a process has open stay.

        Returns:
            Those deleted and those in use.
        """
        if not self.directory.exists():
            return [], []
        deleted: list[CacheEntry] = []
        in_use: list[CacheEntry] = []
        with self._locked():
            self._remove_abandoned()
            for entry in self.entries():
                if name is None or name in entry.names:
                    (deleted if self._remove(entry.folder) else in_use).append(entry)
            if name is None:
                self._remove_unreadable()
        return deleted, in_use

    def shrink(self, to_bytes: int | None = None) -> list[CacheEntry]:
        """Delete what was not used for longest until the rest takes at most `to_bytes`; returns what was deleted."""
        if not self.directory.exists():
            return []
        with self._locked():
            return self._shrink(self.limit_bytes if to_bytes is None else to_bytes)

    def _open(self, wanted: _Wanted, reporter: ProgressReporter) -> tuple[np.ndarray, tuple[Piece, ...]] | None:
        """The wanted images from an entry that has them one after the other."""
        for entry in self.entries():
            position = entry.position_of(wanted.keys)
            if position is None:
                continue
            pieces = entry.pieces[position : position + len(wanted.keys)]
            if self._some_bad_can_be_read_now(wanted, pieces):
                self._discard(entry)
                continue
            images = entry.images(position, len(pieces))
            if images is None:
                self._discard(entry)
                where = f"{entry.name} in {entry.folder}"
                reporter.message(f"The decoded images of {where} were damaged and are made anew.")
                continue
            met = all(piece.answers_to(stamp) for piece, stamp in zip(pieces, wanted.stamps, strict=True))
            if met and wanted.index.name in entry.names:
                entry.note_use()
            else:
                entry.remember(wanted.index.name, position, wanted.stamps)
            return images, pieces
        return None

    def _some_bad_can_be_read_now(self, wanted: _Wanted, pieces: Sequence[Piece]) -> bool:
        """A permission given or a disk mounted since changes neither size nor time of a file."""
        for domain, piece in enumerate(pieces):
            if not piece.bad:
                continue
            sources = wanted.sources(domain)
            for position, _ in piece.bad:
                try:
                    sources[position].pixels(
                        size=wanted.size, resize=wanted.resize, max_megapixels=wanted.max_megapixels
                    )
                except BadImageError:
                    continue
                return True
        return False

    def _build(
        self,
        wanted: _Wanted,
        settings: dict[str, Any],
        skip_bad: bool,
        workers: int | None,
        reporter: ProgressReporter,
    ) -> None:
        """Make an entry of exactly the wanted pieces, unless another process just did."""
        final = self.directory / _entry_name(wanted)
        with _disk_trouble(self.directory), self._turn(final.name, reporter):
            if self._open(wanted, reporter) is not None:
                return
            with self._locked():
                self._remove_abandoned()
                self._shrink(self.limit_bytes - wanted.largest_bytes)
                temporary = self.directory / f"{_BUILDING}{secrets.token_hex(8)}"
                temporary.mkdir()
                file = (temporary / IMAGES_FILE).open("w+b")
                lock_exclusively(file)
            try:
                pieces = self._fill(wanted, file, skip_bad, workers, reporter)
                self._check_unchanged(wanted, settings)
                index = wanted.index
                write_index(temporary, name=index.name, root=index.root, settings=settings, pieces=pieces)
                file.flush()
                os.fsync(file.fileno())
                # Under the lock, because without its own the folder would pass for an abandoned one.
                with self._locked():
                    unlock(file)
                    file.close()
                    _move_into_place(temporary, final, wanted.keys)
            finally:
                file.close()
                shutil.rmtree(temporary, ignore_errors=True)

    def _fill(
        self, wanted: _Wanted, file: IO[bytes], skip_bad: bool, workers: int | None, reporter: ProgressReporter
    ) -> list[Piece]:
        """Write all images into the open file; returns the pieces they make."""
        known = self._known_pieces(wanted)
        images = create_array(file, len(wanted.index), wanted.size)
        missing: list[int] = []
        for domain, key in enumerate(wanted.keys):
            positions = wanted.index.positions_of(domain)
            if not _copy_piece(known.get(key), positions, images):
                missing.extend(positions)
        sources = [wanted.index.sources[i] for i in missing]
        bad = decode_into(
            images,
            sources,
            missing,
            resize=wanted.resize,
            max_megapixels=wanted.max_megapixels,
            workers=workers,
            reporter=reporter,
        )
        check_bad(list(bad.values()), len(wanted.index), skip_bad)
        rows = len(compact(images, bad))
        pieces = _pieces(wanted, bad, images)
        images.flush()
        del images
        cut_to(file, rows, wanted.size)
        return pieces

    def _known_pieces(self, wanted: _Wanted) -> dict[str, tuple[CacheEntry, int]]:
        """Entries that have a wanted piece, and where; pieces with bad images are decoded again."""
        known: dict[str, tuple[CacheEntry, int]] = {}
        for entry in self.entries():
            for position, piece in enumerate(entry.pieces):
                if piece.key in wanted.keys and not piece.bad:
                    known.setdefault(piece.key, (entry, position))
        return known

    def _check_unchanged(self, wanted: _Wanted, settings: dict[str, Any]) -> None:
        """What was decoded must be what the keys say."""
        if stamp_keys(wanted.index, settings) != wanted.stamps:
            root = wanted.index.root
            raise DataError(
                f"files of {root} changed while they were being read; start again once nothing writes there."
            )

    @contextmanager
    def _turn(self, name: str, reporter: ProgressReporter) -> Iterator[None]:
        """Only one process at a time builds the same entry; the others wait for it and then use it."""
        path = self.directory / f".{name}.lock"
        with path.open("wb") as file:
            if not try_lock_exclusively(file):
                reporter.message("Another process is decoding the same images; waiting for it.")
                lock_exclusively(file)
            try:
                yield
            finally:
                path.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Alone with the list of entries, for moments."""
        with (self.directory / ".lock").open("wb") as file:
            lock_exclusively(file)
            yield

    def _discard(self, entry: CacheEntry) -> None:
        try:
            with self._locked():
                self._remove(entry.folder, even_in_use=True)
        except OSError as error:
            raise CacheUnavailableError(f"{entry.folder} is damaged and cannot be deleted ({error}).") from None

    def _shrink(self, to_bytes: int) -> list[CacheEntry]:
        entries = self.entries()
        total = sum(entry.bytes for entry in entries)
        deleted = []
        for entry in reversed(entries):
            if total <= to_bytes:
                break
            if self._remove(entry.folder):
                total -= entry.bytes
                deleted.append(entry)
        return deleted

    def _remove(self, folder: Path, *, even_in_use: bool = False) -> bool:
        """Delete an entry unless a process has it open; it vanishes at once, so nobody meets a half."""
        try:
            with (folder / IMAGES_FILE).open("rb") as file:
                if not try_lock_exclusively(file) and not even_in_use:
                    return False
        except FileNotFoundError:
            pass
        doomed = self.directory / f"{_BUILDING}{secrets.token_hex(8)}"
        try:
            folder.rename(doomed)
        except FileNotFoundError:
            return True
        except PermissionError:  # Windows, for a mapped file
            return False
        shutil.rmtree(doomed, ignore_errors=True)
        return True

    def _remove_abandoned(self) -> None:
        """What a killed process left half built: nobody holds its lock any more."""
        for folder in self.directory.glob(f"{_BUILDING}*"):
            try:
                with (folder / IMAGES_FILE).open("rb") as file:
                    alive = not try_lock_exclusively(file)
            except OSError:
                alive = False
            if not alive:
                shutil.rmtree(folder, ignore_errors=True)

    def _remove_unreadable(self) -> None:
        """Folders that are no entries: damaged ones, and those of another version."""
        for folder in self.directory.iterdir():
            if folder.is_dir() and not folder.name.startswith(".") and read_entry(folder) is None:
                self._remove(folder)


def _entry_name(wanted: _Wanted) -> str:
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", wanted.index.name).strip("-.")[:40] or "images"
    return f"{readable}-{hashlib.sha256('/'.join(wanted.keys).encode()).hexdigest()[:16]}"


def _move_into_place(temporary: Path, final: Path, keys: Sequence[str]) -> None:
    """Rename a finished entry; where another process was faster, its entry is as good."""
    try:
        temporary.rename(final)
    except OSError:
        there = read_entry(final)
        if there is not None and there.position_of(keys) is not None:
            return
        shutil.rmtree(final, ignore_errors=True)
        temporary.rename(final)


def _copy_piece(known: tuple[CacheEntry, int] | None, positions: range, images: np.ndarray) -> bool:
    """Take a piece from another entry; False when there is none or it has vanished or is damaged."""
    if known is None:
        return False
    entry, position = known
    other = entry.images(position, 1)
    if other is None or len(other) != len(positions):
        return False
    images[positions.start : positions.stop] = other
    entry.note_use()
    return True


def _pieces(wanted: _Wanted, bad: dict[int, BadImageError], images: np.ndarray) -> list[Piece]:
    """What the images, of which the good ones stand together at the front, are made of."""
    pieces: list[Piece] = []
    first = 0
    for domain, name in enumerate(wanted.index.domain_names):
        positions = wanted.index.positions_of(domain)
        own = tuple((i - positions.start, bad[i].reason) for i in positions if i in bad)
        rows = len(positions) - len(own)
        found = checksum(images[first : first + rows])
        pieces.append(Piece(wanted.keys[domain], name, rows, found, own, (wanted.stamps[domain],)))
        first += rows
    return pieces


def _kept_and_skipped(index: ImageIndex, pieces: Sequence[Piece]) -> tuple[np.ndarray, list[tuple[str, str]]]:
    kept, skipped = [], []
    for domain, piece in enumerate(pieces):
        positions = index.positions_of(domain)
        reasons = dict(piece.bad)
        kept += [i for i in positions if i - positions.start not in reasons]
        skipped += [(index.sources[positions.start + i].path, reason) for i, reason in piece.bad]
    return np.array(kept, dtype=np.int64), skipped


@contextmanager
def _disk_trouble(directory: Path) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise CacheUnavailableError(
            f"{directory} cannot be written ({error.strerror or error}); set HOMEFOLD_CACHE to another folder."
        ) from None
