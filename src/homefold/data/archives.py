"""Where images lie one by one: in folders, and in tars and zips, which are read without unpacking."""

from __future__ import annotations

import hashlib
import io
import os
import struct
import tarfile
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from homefold.data.decoding.image import BadImageError, Resize, decode_image, is_image_name
from homefold.data.index import Stamp, file_stamp
from homefold.data.paths import reading, special_kind, walking
from homefold.errors import DataError

__all__ = [
    "ArchiveImage",
    "FileImage",
    "archive_images",
    "archive_members",
    "archive_texts",
    "is_archive",
    "is_compressed_tar",
    "is_image",
    "list_folder",
    "walk",
]

LARGEST_BYTES = 1 << 31
"""Larger members of an archive are not read: 200 megapixels of sixteen bits, uncompressed, take less."""

_ARCHIVES = (".tar", ".zip")
_COMPRESSED_TARS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")
_ARCHIVERS_FOLDER = "__MACOSX"  # holds shadows of the images, made by macOS
_ENCRYPTED = 0x1
_ZIP_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ZIP_END = struct.Struct("<10xH10x")
_LONGEST_COMMENT = 0xFFFF
_LARGEST_RECORD = 1 << 20
_MANY = 0xFFFF  # members: so many or more, which another place tells
_READ_AT_ONCE = 1 << 20
_LINK = "is a link, and links are not followed in a tar (tar -h packs what they lead to)"
_SPARSE = "is stored in pieces (sparse), so that it cannot be read from the tar: unpack it"
_hasher = partial(hashlib.blake2b, digest_size=16)


@dataclass(frozen=True, slots=True)
class FileImage:
    """An image file."""

    file: Path

    @property
    def path(self) -> str:
        return str(self.file)

    def stamp(self) -> Stamp:
        return file_stamp(self.file)

    def digest(self) -> str:
        if special_kind(self.file):
            return ""
        try:
            with self.file.open("rb") as file:
                return hashlib.file_digest(file, _hasher).hexdigest()
        except OSError:
            return ""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        return decode_image(self.file, size=size, resize=resize, max_megapixels=max_megapixels)


@dataclass(frozen=True, slots=True)
class ArchiveImage:
    """An image inside an uncompressed tar or a zip, found by its place in the file.

    Every read opens the archive anew: no file position is shared between threads. The stamp is the archive's from
    before its table was read; the offset is in a zip that of the member's own header; the checksum is the CRC-32 of the
    unpacked bytes, and a tar has none; a `fault` that is known already stands after the name.
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
        return f"{self.archive}/{self.member}"

    def stamp(self) -> Stamp:
        # An archive that changed since its table was read would give other bytes.
        now = file_stamp(self.archive)
        if now != self.archive_stamp:
            raise DataError(f"{self.archive} changed while it was being read; start again when it is complete.")
        return Stamp(f"{now.text}|{self.member}|{self.offset}|{self.stored_bytes}|{self.checksum}", now.changed_ns)

    def digest(self) -> str:
        try:
            return _hasher(self.content()).hexdigest()
        except BadImageError:
            return ""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
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
        if self.unpacked_bytes is not None:
            content = self._inflated(content, self.unpacked_bytes)
        if self.checksum is not None and zlib.crc32(content) != self.checksum:
            raise BadImageError(self.path, "is damaged (its checksum is wrong)")
        return content

    def _skip_local_header(self, file: io.BufferedReader) -> None:
        header = file.read(_ZIP_LOCAL_HEADER.size)
        if len(header) < _ZIP_LOCAL_HEADER.size or header[:4] != b"PK\x03\x04":
            raise BadImageError(self.path, "is damaged (the zip's header for it is not where it should be)")
        _, name_bytes, extra_bytes = _ZIP_LOCAL_HEADER.unpack(header)
        file.seek(name_bytes + extra_bytes, os.SEEK_CUR)

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


def is_archive(path: Path) -> bool:
    """Whether a file of this name is read in place."""
    return path.name.lower().endswith(_ARCHIVES) and not path.name.startswith(".")


def is_compressed_tar(path: Path) -> bool:
    """Whether a file of this name is a tar in which no member can be reached without reading all before it."""
    return path.name.lower().endswith(_COMPRESSED_TARS)


def is_image(path: Path) -> bool:
    """Whether a search takes this for an image: no pipe, but a link that leads nowhere, to be told of as a bad one."""
    return is_image_name(path.name) and not special_kind(path)


def list_folder(folder: Path) -> tuple[list[Path], list[Path], list[Path]]:
    """Sorted folders, images and other files in a folder, without hidden folders."""
    folders: list[Path] = []
    images: list[Path] = []
    others: list[Path] = []
    with walking(folder), os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            path = folder / entry.name
            if os.path.isdir(path) if entry.is_symlink() else entry.is_dir():
                if not _is_hidden(entry.name):
                    folders.append(path)
            else:
                (images if is_image(path) else others).append(path)
    return folders, images, others


def walk(start: Sequence[Path]) -> Iterator[tuple[Path, list[Path], list[Path]]]:
    """Folders and all below them, each with its images and other files, and each once: loops of links end."""
    seen: set[tuple[int, int]] = set()
    waiting = list(reversed(start))
    while waiting:
        current = waiting.pop()
        with walking(current):
            status = current.stat()
        if (status.st_dev, status.st_ino) in seen:
            continue
        seen.add((status.st_dev, status.st_ino))
        folders, images, others = list_folder(current)
        yield current, images, others
        waiting.extend(reversed(folders))


def archive_images(path: Path) -> list[tuple[PurePosixPath, ArchiveImage]]:
    """The images in a tar or zip, each with its name inside; hidden ones and other files are passed over."""
    with _reading(path):
        images = _zip_images(path) if _is_zip(path) else _tar_images(path)
    placed = [(_inner_path(image.member), image) for image in images]
    return [
        (member, image)
        for member, image in placed
        if is_image_name(member.name) and not any(map(_is_hidden, member.parts[:-1]))
    ]


def archive_texts(path: Path, *endings: str) -> dict[str, bytes]:
    """The members of a tar or zip whose names end so (in `_kfold.txt`, say), by the last part of their names."""
    return {name.name: content for name, content in archive_members(path, *endings).items()}


def archive_members(path: Path, *endings: str) -> dict[PurePosixPath, bytes]:
    """What the members of a tar or zip hold whose names end so; those of images are read by `archive_images`."""
    with _reading(path):
        if _is_zip(path):
            with _open_zip(path) as packed:
                names = [name for name in packed.namelist() if name.endswith(endings)]
                return {_inner_path(name): packed.read(name) for name in names}
        with tarfile.open(path, mode="r:") as archive:
            members = [member for member in _tar_members(archive) if member.isreg() and member.name.endswith(endings)]
            files = [(member.name, archive.extractfile(member)) for member in members]
            return {_inner_path(name): file.read() for name, file in files if file is not None}


def _is_zip(path: Path) -> bool:
    return path.name.lower().endswith(".zip")


def _reading(path: Path) -> AbstractContextManager[None]:
    kind = "a zip" if _is_zip(path) else "an uncompressed tar"
    advice = "it is damaged or cut off: fetch it anew, or if you know it to be whole, unpack it and give the folder"
    return reading(path, kind, advice)


def _inner_path(member: str) -> PurePosixPath:
    """A member's path; some programs on Windows part folders with a backslash."""
    return PurePosixPath(member if "/" in member else member.replace("\\", "/"))


def _is_hidden(folder: str) -> bool:
    return folder == _ARCHIVERS_FOLDER or (folder.startswith(".") and folder not in (".", ".."))


def _tar_members(archive: tarfile.TarFile) -> list[tarfile.TarInfo]:
    """Every member of a tar that is whole: `tarfile` takes a cut or a damaged header for its end."""
    members: list[tarfile.TarInfo] = []
    reached = 0
    for member in archive:
        # Otherwise a negative size leads round in a circle.
        if archive.offset <= reached:
            raise tarfile.ReadError(f"the header at byte {member.offset} leads back")
        reached = archive.offset
        members.append(member)
    _check_end(archive)
    return members


def _check_end(archive: tarfile.TarFile) -> None:
    """After the last member comes an empty block, and nothing but zeros, of which no more than a program writes.

    The standard wants two such blocks; one is enough here: a cut after it has taken no member away.
    """
    file, end = archive.fileobj, archive.offset
    assert file is not None
    file.seek(end)
    block = file.read(tarfile.BLOCKSIZE)
    if any(block):
        raise tarfile.ReadError(f"there is no header at byte {end}, where one should be")
    if len(block) < tarfile.BLOCKSIZE:
        raise tarfile.ReadError(f"it ends without the empty block that every tar ends with, at byte {end + len(block)}")
    while rest := file.read(_READ_AT_ONCE):
        if rest.count(0) < len(rest):
            raise tarfile.ReadError(
                f"more follows after its end at byte {end}, as where two tars were joined (tar -i unpacks both)"
            )
    size = file.tell()
    # The largest record that a tar of this size can consist of: 10,240 bytes as a rule, or a greater power of two.
    record_bytes = max(tarfile.RECORDSIZE, min(size & -size, _LARGEST_RECORD))
    if size - end >= 2 * tarfile.BLOCKSIZE + record_bytes:
        raise tarfile.ReadError(f"all is empty from byte {end}, as where a download stopped that had made room for all")


def _tar_images(path: Path) -> list[ArchiveImage]:
    stamp = file_stamp(path)
    with tarfile.open(path, mode="r:") as archive:
        members = _tar_members(archive)
    files = {member.name: member for member in members if member.isreg()}
    images = []
    for member in members:
        linked = files.get(member.linkname) if member.islnk() else member
        if member.isreg() or member.islnk() or member.issym():
            # What cannot be read is kept, so that it is reported as a bad image.
            fault = _LINK if linked is None or linked.issym() else _SPARSE if linked.issparse() else ""
            place = linked or member
            images.append(ArchiveImage(path, stamp, member.name, place.offset_data, place.size, fault=fault))
    return images


@contextmanager
def _open_zip(path: Path) -> Iterator[zipfile.ZipFile]:
    """A zip with as many members as it says: `zipfile` passes over those that a damaged one hides."""
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        file.seek(-min(_ZIP_END.size + _LONGEST_COMMENT, path.stat().st_size), os.SEEK_END)
        tail = file.read()
        (said,) = _ZIP_END.unpack_from(tail, tail.rindex(b"PK\x05\x06"))
        found = len(archive.infolist())
        if said not in (found % (_MANY + 1), _MANY):
            raise zipfile.BadZipFile(f"its table has {found} members and should have {said}")
        yield archive


def _zip_images(path: Path) -> list[ArchiveImage]:
    stamp = file_stamp(path)
    with _open_zip(path) as archive:
        members = [member for member in archive.infolist() if is_image_name(_inner_path(member.filename).name)]
        for member in members:
            if member.flag_bits & _ENCRYPTED:
                raise DataError(f"{path} is locked with a password; unpack it and give the folder.")
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"{path} is packed by a method other than deflate; unpack it and give the folder.")
    images = []
    for member in members:
        place = member.filename, member.header_offset, member.compress_size
        unpacked_bytes = member.file_size if member.compress_type == zipfile.ZIP_DEFLATED else None
        images.append(ArchiveImage(path, stamp, *place, True, unpacked_bytes, member.CRC))
    return images
