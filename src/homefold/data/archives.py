"""What lies in a tar or zip, with the place of each member, so that it can be read without unpacking."""

from __future__ import annotations

import os
import struct
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path, PurePosixPath

from homefold.data.images import is_image_name
from homefold.data.paths import reading
from homefold.data.sources import ArchiveImage, file_stamp
from homefold.errors import DataError

__all__ = [
    "ARCHIVE_EXTENSIONS",
    "COMPRESSED_TAR_EXTENSIONS",
    "archive_images",
    "archive_texts",
    "is_archive",
    "is_compressed_tar",
]

ARCHIVE_EXTENSIONS = (".tar", ".zip")
COMPRESSED_TAR_EXTENSIONS = (".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".tar.zst")

_ENCRYPTED = 0x1
_ZIP_END = struct.Struct("<10xH10x")
_LONGEST_COMMENT = 0xFFFF
_MANY = 0xFFFF  # members: so many or more, which another place tells
_READ_AT_ONCE = 1 << 20
_LINK = "is a link, and links are not followed in a tar (tar -h packs what they lead to)"
_SPARSE = "is stored in pieces (sparse), so that it cannot be read from the tar: unpack it"


def is_archive(path: Path) -> bool:
    """Whether a file of this name is read in place."""
    return path.name.lower().endswith(ARCHIVE_EXTENSIONS) and not path.name.startswith(".")


def is_compressed_tar(path: Path) -> bool:
    """Whether a file of this name is a tar in which no member can be reached without reading all before it."""
    return path.name.lower().endswith(COMPRESSED_TAR_EXTENSIONS)


def archive_images(path: Path) -> list[tuple[PurePosixPath, ArchiveImage]]:
    """The images in a tar or zip, each with its name inside; hidden ones and other files are passed over.

    Args:
        path: the archive.
    """
    with _reading(path):
        images = _zip_images(path) if _is_zip(path) else _tar_images(path)
    placed = [(_inner_path(image.member), image) for image in images]
    return [(member, image) for member, image in placed if _is_wanted(member)]


def archive_texts(path: Path, ending: str) -> dict[str, bytes]:
    """The members of a tar or zip whose names end so, by the last part of their names.

    Args:
        path: the archive.
        ending: such as `_kfold.txt`.
    """
    with _reading(path):
        if _is_zip(path):
            with _open_zip(path) as packed:
                names = [name for name in packed.namelist() if name.endswith(ending)]
                return {_inner_path(name).name: packed.read(name) for name in names}
        with tarfile.open(path, mode="r:") as archive:
            members = [member for member in _tar_members(archive) if member.isreg() and member.name.endswith(ending)]
            files = [(member.name, archive.extractfile(member)) for member in members]
            return {_inner_path(name).name: file.read() for name, file in files if file is not None}


def _is_zip(path: Path) -> bool:
    return path.name.lower().endswith(".zip")


def _reading(path: Path) -> AbstractContextManager[None]:
    kind = "a zip" if _is_zip(path) else "an uncompressed tar"
    advice = "it is damaged or cut off: fetch it anew, or if you know it to be whole, unpack it and give the folder"
    return reading(path, kind, advice)


def _inner_path(member: str) -> PurePosixPath:
    """A member's path; some programs on Windows part folders with a backslash."""
    return PurePosixPath(member if "/" in member else member.replace("\\", "/"))


def _is_wanted(member: PurePosixPath) -> bool:
    hidden = any((part.startswith(".") and part not in (".", "..")) or part == "__MACOSX" for part in member.parts[:-1])
    return is_image_name(member.name) and not hidden


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
    """After the last member comes an empty block, and nothing else but zeros.

    The standard wants two such blocks, and most programs fill up to 10,240 bytes. One is enough here, as it is for
    other readers: a cut after it has taken no member away.
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
        return [
            ArchiveImage(
                path,
                stamp,
                member.filename,
                member.header_offset,
                member.compress_size,
                in_zip=True,
                unpacked_bytes=member.file_size if member.compress_type == zipfile.ZIP_DEFLATED else None,
                checksum=member.CRC,
            )
            for member in members
        ]
