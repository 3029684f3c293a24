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
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import IO, Any

import numpy as np
import PIL
from filelock import lock_descriptor

from homefold.data.cache.computed import Computed, computed_entries
from homefold.data.cache.directory import cache_directory, cache_limit_bytes
from homefold.data.cache.entry import (
    IMAGES_FILE,
    CacheEntry,
    Piece,
    checksum,
    create_array,
    cut_to,
    read_entry,
    write_index,
)
from homefold.data.decoding.image import BadImageError
from homefold.data.decoding.many import check_bad, compact, decode_into, map_images
from homefold.data.index import ImageIndex, KeyKind, LoadRequest
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter
from homefold.store.locking import claimed

__all__ = ["CacheUnavailableError", "ImageCache"]

_Found = tuple[np.ndarray, tuple[Piece, ...]]
_BUILDING, _DELETED = ".building-", ".deleted-"
_DECODER = 1  # raise it whenever decode_image gives other pixels, so that no cache serves the old ones
_CLOCK_TICK_NS = 20_000_000  # file systems note times to a few milliseconds at worst, where they note fractions at all


class CacheUnavailableError(Exception):
    """The cache cannot be used; the images can."""


@dataclass(frozen=True)
class _Wanted:
    """A request, with a key for each of its domains by their bytes, or by their stamps as long as nobody read them."""

    index: ImageIndex
    size: tuple[int, int]
    request: LoadRequest
    keys: tuple[str, ...] = ()
    stamps: tuple[str, ...] = ()

    @property
    def largest_bytes(self) -> int:
        return len(self.index) * self.size[0] * self.size[1] * 3

    @property
    def settings(self) -> dict[str, Any]:
        """What decides a pixel, but for the images."""
        return {
            "size": list(self.size),
            "resize": self.request.resize,
            "max_megapixels": self.request.max_megapixels,
        }

    def require_unchanged(self) -> None:
        """What was read must be what the keys say."""
        if _stamp_keys(self.index, self.settings) != self.stamps:
            raise DataError(
                f"files of {self.index.root} changed while they were being read; start again once nothing writes there."
            )


class ImageCache:
    """The decoded images that are kept in `cache_directory()`."""

    def __init__(self) -> None:
        self.directory = cache_directory() / "images"

    def images(
        self, index: ImageIndex, size: tuple[int, int], request: LoadRequest
    ) -> tuple[np.ndarray, np.ndarray, list[tuple[str, str]]]:
        """The images of an index, mapped into memory; what is not there yet is decoded first.

        Returns:
            `(n, height, width, 3)` uint8; `(n,)` the position of each in the index; `(path, reason)` of the bad ones.
        """
        wanted = _Wanted(index, size, request)
        stamps = _stamp_keys(index, wanted.settings)
        wanted = replace(wanted, keys=stamps, stamps=stamps)
        found = self._open(wanted) if request.cache_key == "times" else None
        if found is None:
            self._check_room(wanted)
            wanted = replace(wanted, keys=self._content_keys(wanted))
            found = self._open(wanted) or self._build(wanted)
        images, pieces = found
        kept, skipped = _kept_and_skipped(index, pieces)
        check_bad([BadImageError(path, reason) for path, reason in skipped], len(index), request.skip_bad)
        return images, kept, skipped

    def _check_room(self, wanted: _Wanted) -> None:
        """Find out before anything is read in vain."""
        if wanted.largest_bytes > (limit := cache_limit_bytes()):
            raise CacheUnavailableError(
                f"they would take {wanted.largest_bytes / 1e9:.1f} GB, more than the cache's limit of "
                f"{limit / 1e9:.1f} GB (HOMEFOLD_CACHE_LIMIT, or homefold data cache --limit)."
            )
        with _disk_trouble(self.directory):
            self.directory.mkdir(parents=True, exist_ok=True)

    def _content_keys(self, wanted: _Wanted) -> tuple[str, ...]:
        """A key by content for each domain, read only where its stamp is not known."""
        entries = self.entries() if wanted.request.cache_key == "times" else []
        known = {stamp: piece.key for entry in entries for piece in entry.pieces for stamp in piece.stamps}
        unknown = [domain for domain, stamp in enumerate(wanted.stamps) if stamp not in known]
        read = _content_keys(wanted, unknown)
        wanted.require_unchanged()
        return tuple(read.get(domain) or known[stamp] for domain, stamp in enumerate(wanted.stamps))

    def entries(self) -> list[CacheEntry]:
        """Every complete entry, the one used last first."""
        found = [entry for entry in map(read_entry, self._folders()) if entry is not None]
        return sorted(found, key=lambda entry: -entry.used)

    def clear(self, name: str | None = None) -> tuple[list[CacheEntry], list[CacheEntry]]:
        """Delete the entries of a dataset, or everything; those that a process has open stay.

        Returns:
            Those deleted and those in use.
        """
        self._remove_abandoned()
        chosen = [entry for entry in self.entries() if name is None or name in entry.names]
        deleted = [entry for entry in chosen if self._remove(entry.folder)]
        # What is left and no entry is damaged, or of another version.
        for folder in self._folders() if name is None else []:
            if read_entry(folder) is None:
                self._remove(folder)
        return deleted, [entry for entry in chosen if entry not in deleted]

    def shrink(self, to_bytes: int | None = None) -> list[CacheEntry | Computed]:
        """Delete what was not used for longest until the rest takes at most `to_bytes`; returns what was deleted.

        What was computed from images counts and goes like decoded images.
        """
        limit = cache_limit_bytes() if to_bytes is None else to_bytes
        kept: list[CacheEntry | Computed] = [*self.entries(), *computed_entries()]
        total, deleted = sum(entry.bytes for entry in kept), []
        for entry in sorted(kept, key=attrgetter("used")):
            if total <= limit:
                break
            if entry.remove() if isinstance(entry, Computed) else self._remove(entry.folder):
                total -= entry.bytes
                deleted.append(entry)
        return deleted

    def _folders(self) -> list[Path]:
        with suppress(OSError):
            return [path for path in self.directory.iterdir() if path.is_dir() and not path.name.startswith(".")]
        return []

    def _open(self, wanted: _Wanted) -> _Found | None:
        """The wanted images from an entry that has them one after the other."""
        for entry in self.entries():
            position = entry.position_of(wanted.keys)
            if position is None:
                continue
            pieces = entry.pieces[position : position + len(wanted.keys)]
            if _some_bad_can_be_read_now(wanted, pieces):
                self._discard(entry)
                continue
            images = entry.images(position, len(pieces))
            if images is None:
                self._discard(entry)
                where = f"{entry.name} in {entry.folder}"
                wanted.request.progress.message(f"The decoded images of {where} were damaged and are made anew.")
                continue
            met = all(piece.answers_to(stamp) for piece, stamp in zip(pieces, wanted.stamps, strict=True))
            if met and wanted.index.name in entry.names:
                entry.note_use()
            else:
                entry.remember(wanted.index.name, position, wanted.stamps)
            return images, pieces
        return None

    def _build(self, wanted: _Wanted) -> _Found:
        """Make an entry of exactly the wanted pieces, unless another process just did, and open it."""
        final = self.directory / _entry_name(wanted)
        with _disk_trouble(self.directory), self._turn(final.name, wanted.request.progress):
            if (found := self._open(wanted)) is not None:
                return found
            building = self.directory / f"{_BUILDING}{final.name}"
            shutil.rmtree(building, ignore_errors=True)
            self._remove_abandoned()
            self.shrink(cache_limit_bytes() - wanted.largest_bytes)
            building.mkdir()
            try:
                with (building / IMAGES_FILE).open("w+b") as file:
                    pieces = self._fill(wanted, file)
                    wanted.require_unchanged()
                    index = wanted.index
                    write_index(building, name=index.name, root=index.root, settings=wanted.settings, pieces=pieces)
                    file.flush()
                    os.fsync(file.fileno())
                shutil.rmtree(final, ignore_errors=True)  # damaged: else it would have been used
                building.rename(final)
            finally:
                shutil.rmtree(building, ignore_errors=True)
        if (found := self._open(wanted)) is None:
            raise CacheUnavailableError(f"{self.directory} was emptied meanwhile.")
        return found

    def _fill(self, wanted: _Wanted, file: IO[bytes]) -> list[Piece]:
        """Write all images into the open file; returns the pieces they make."""
        index, images = wanted.index, create_array(file, len(wanted.index), wanted.size)
        # Pieces with bad images are decoded again.
        known = {
            piece.key: (entry, position)
            for entry in reversed(self.entries())
            for position, piece in enumerate(entry.pieces)
            if piece.key in wanted.keys and not piece.bad
        }
        missing: list[int] = []
        for domain, key in enumerate(wanted.keys):
            positions = index.positions_of(domain)
            if key not in known or not _copy_piece(*known[key], positions, images):
                missing.extend(positions)
        bad = decode_into(images, [index.sources[i] for i in missing], missing, wanted.request)
        check_bad(list(bad.values()), len(index), wanted.request.skip_bad)
        rows = len(compact(images, bad))
        pieces = _pieces(wanted, bad, images)
        images.flush()
        del images
        cut_to(file, rows, wanted.size)
        return pieces

    @contextmanager
    def _turn(self, name: str, progress: ProgressReporter) -> Iterator[None]:
        """Only one process at a time builds the same entry; the others wait for it and then use it."""
        path = self._lock_of(name)
        with claimed(path, wait=False) as held:
            if held:
                yield
                return
        progress.message("Another process is decoding the same images; waiting for it.")
        with claimed(path, wait=True):
            yield

    def _lock_of(self, name: str) -> Path:
        return self.directory / f".{name}.lock"

    def _discard(self, entry: CacheEntry) -> None:
        try:
            self._remove(entry.folder, even_in_use=True)
        except OSError as error:
            raise CacheUnavailableError(f"{entry.folder} is damaged and cannot be deleted ({error}).") from None

    def _remove(self, folder: Path, *, even_in_use: bool = False) -> bool:
        """Delete an entry unless a process has it open; it vanishes at once, so nobody meets a half."""
        with suppress(FileNotFoundError), (folder / IMAGES_FILE).open("rb") as file:
            if not even_in_use and not lock_descriptor(file.fileno(), blocking=False):
                return False
        doomed = self.directory / f"{_DELETED}{secrets.token_hex(8)}"
        try:
            folder.rename(doomed)
        except FileNotFoundError:
            return True
        except PermissionError:  # Windows, for a mapped file
            return False
        shutil.rmtree(doomed, ignore_errors=True)
        return True

    def _remove_abandoned(self) -> None:
        """What killed processes left half built, where nobody holds the lock any more, or half deleted."""
        for folder in self.directory.glob(f"{_BUILDING}*"):
            with claimed(self._lock_of(folder.name.removeprefix(_BUILDING)), wait=False) as free:
                if free:
                    shutil.rmtree(folder, ignore_errors=True)
        for folder in self.directory.glob(f"{_DELETED}*"):
            shutil.rmtree(folder, ignore_errors=True)


def _content_keys(wanted: _Wanted, domains: Sequence[int]) -> dict[int, str]:
    """By domain, a hash of the stored bytes of its images and of all else that their decoded pixels depend on."""
    hashes = {domain: _hash_of(wanted.settings, "content") for domain in domains}
    positions = [(domain, position) for domain in domains for position in wanted.index.positions_of(domain)]
    sources = [wanted.index.sources[position] for _, position in positions]
    digests = map_images(lambda source: source.digest(), sources, "reading images", wanted.request) if domains else ()
    for (domain, _), digest in zip(positions, digests, strict=True):
        assert not isinstance(digest, BadImageError)
        hashes[domain].update(digest.encode() + b"\n")
    return {domain: found.hexdigest()[:32] for domain, found in hashes.items()}


def _stamp_keys(index: ImageIndex, settings: dict[str, Any]) -> tuple[str, ...]:
    """One key for each domain of the index: where its images lie, their sizes and times, and the settings."""
    settled = time.time_ns() - _CLOCK_TICK_NS
    keys = []
    for domain in range(len(index.domain_names)):
        digest = _hash_of(settings, "times")
        for position in index.positions_of(domain):
            text, changed_ns = index.sources[position].stamp()
            if settled < changed_ns < settled + 2 * _CLOCK_TICK_NS:
                # Changed a moment ago: one more change within the same tick of the clock could not be told.
                time.sleep(_CLOCK_TICK_NS / 1e9)
                return _stamp_keys(index, settings)
            digest.update(text.encode(errors="surrogatepass") + b"\n")
        keys.append(digest.hexdigest()[:32])
    return tuple(keys)


def _hash_of(settings: dict[str, Any], kind: KeyKind) -> hashlib._Hash:
    versions = {"decoder": _DECODER, "pillow": PIL.__version__, "kind": kind}
    return hashlib.sha256(json.dumps({**settings, **versions}, sort_keys=True).encode())


def _entry_name(wanted: _Wanted) -> str:
    readable = re.sub(r"[^A-Za-z0-9._]+", "-", wanted.index.name).strip("-.")[:40] or "images"
    return f"{readable}-{hashlib.sha256('/'.join(wanted.keys).encode()).hexdigest()[:16]}"


def _some_bad_can_be_read_now(wanted: _Wanted, pieces: Sequence[Piece]) -> bool:
    """A permission given or a disk mounted since changes neither size nor time of a file."""
    for domain, piece in enumerate(pieces):
        first = wanted.index.positions_of(domain).start
        for position, _ in piece.bad:
            with suppress(BadImageError):
                wanted.index.sources[first + position].pixels(
                    size=wanted.size, resize=wanted.request.resize, max_megapixels=wanted.request.max_megapixels
                )
                return True
    return False


def _copy_piece(entry: CacheEntry, position: int, positions: range, images: np.ndarray) -> bool:
    """Take a piece from another entry; False when it has vanished or is damaged."""
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
