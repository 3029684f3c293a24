"""Files on this machine and at addresses such as s3://bucket/photos, which pyarrow or fsspec read."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from homefold.data.stored_images import require_pyarrow
from homefold.errors import DataError, cut

__all__ = ["GoneError", "Place", "is_address", "place_at", "reaching"]

_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+://")
_REFUSED = re.compile(
    r"ACCESS_DENIED|INVALID_ACCESS_KEY|SIGNATURE|credential|Forbidden|HTTP status 40[13]|Unauthenticated", re.I
)
_READ_AT_ONCE = 1 << 22
_LONGEST_REASON = 120
_RETRY_SECONDS = 30  # gs:// itself would for a quarter of an hour


class GoneError(DataError):
    """What was to be read is not there."""


def is_address(text: str) -> bool:
    """Whether it says how to reach it, which no path does.

    >>> is_address("s3://bucket/photos"), is_address("photos"), is_address("C:/photos")
    (True, False, False)
    """
    return _ADDRESS.match(text) is not None


@contextmanager
def reaching(address: str) -> Iterator[None]:
    """Inside, whatever a file system raises becomes a sentence that names the address."""
    try:
        yield
    except DataError:
        raise
    except FileNotFoundError:
        raise GoneError(f"There is nothing at {address}.") from None
    except Exception as error:  # each file system has kinds of its own
        said = " ".join(str(error).rpartition("AWS Error ")[2].partition("; Details")[0].split())
        reason = cut(said or type(error).__name__, _LONGEST_REASON).rstrip(".")
        if isinstance(error, PermissionError) or _REFUSED.search(str(error)):
            raise DataError(
                f"{address} may not be read ({reason}); give credentials as its kind of store takes them, for s3 in "
                "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY or in ~/.aws."
            ) from None
        if "NO_SUCH_BUCKET" in str(error):
            raise GoneError(f"There is nothing at {address}: {reason}.") from None
        raise DataError(f"{address} cannot be reached ({reason}); check the address and the network.") from None


@dataclass(frozen=True)
class Place:
    """A file or folder at an address.

    Args:
        filesystem: of pyarrow's.
        path: what the file system calls it.
        address: as a person wrote it, without what follows a question mark.
    """

    filesystem: Any
    path: str
    address: str

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rstrip("/").rpartition("/")[2]

    def beside(self, relative: str) -> Place:
        """What lies there relative to the folder that this file is in."""
        return replace(self, path=self.path.rpartition("/")[0], address=self.address.rpartition("/")[0]) / relative

    def __truediv__(self, name: str) -> Place:
        parts = [part for part in name.split("/") if part not in ("", ".")]
        path, address = self.path.rstrip("/"), self.address.rstrip("/")
        for part in parts:
            path, address = (
                (path.rpartition("/")[0], address.rpartition("/")[0])
                if part == ".."
                else (f"{path}/{part}", f"{address}/{part}")
            )
        return replace(self, path=path, address=address)

    def named(self, address: str) -> Place:
        """What an address names, which may begin with the address of this folder."""
        inside = address.removeprefix(f"{self.address.rstrip('/')}/")
        if inside != address:
            return self / inside
        kind, _, rest = address.partition("://")
        host, _, path = rest.partition("/")
        return _top(f"{kind}://{host}/") / path

    def is_folder(self) -> bool:
        """Whether it is one; an error where nothing is there."""
        from pyarrow import fs

        with reaching(self.address):
            kind = self.filesystem.get_file_info(self.path.rstrip("/")).type
        if kind == fs.FileType.NotFound:
            raise GoneError(f"There is nothing at {self.address}.")
        return bool(kind == fs.FileType.Directory)

    def listed(self) -> tuple[list[Place], list[tuple[Place, str]]]:
        """The folders in a folder, and its files with a stamp that changes with each; both sorted, none hidden."""
        from pyarrow import fs

        with reaching(self.address):
            found = self.filesystem.get_file_info(fs.FileSelector(self.path.rstrip("/")))
        found = sorted((info for info in found if not info.base_name.startswith(".")), key=lambda info: info.base_name)
        folders = [self / info.base_name for info in found if info.type == fs.FileType.Directory]
        files = [(self / info.base_name, _stamp(info)) for info in found if info.type == fs.FileType.File]
        return folders, files

    def stamp(self) -> str:
        """Changes when the file does; an error where none is there."""
        from pyarrow import fs

        with reaching(self.address):
            info = self.filesystem.get_file_info(self.path)
        if info.type == fs.FileType.NotFound:
            raise GoneError(f"There is nothing at {self.address}.")
        return _stamp(info)

    def open(self) -> Any:
        """Its content, which may be read from anywhere."""
        with reaching(self.address):
            return self.filesystem.open_input_file(self.path)

    def content(self) -> bytes:
        """All of it."""
        with reaching(self.address), self.filesystem.open_input_file(self.path) as file:
            return bytes(file.read())

    def fetch(self, to: Path) -> Path:
        """A copy of it as a file of this machine."""
        with reaching(self.address), self.filesystem.open_input_stream(self.path) as stream, to.open("wb") as file:
            shutil.copyfileobj(stream, file, _READ_AT_ONCE)
        return to


def _stamp(info: Any) -> str:
    return f"{info.size}|{info.mtime_ns}"


def place_at(address: str) -> Place:
    """The file or folder at an address, which is not looked for yet."""
    require_pyarrow(Path(address))
    from pyarrow import ArrowInvalid, fs

    with reaching(address):
        try:
            filesystem, path = fs.FileSystem.from_uri(_with_options(address))
        except ArrowInvalid as error:
            if "Cannot parse URI" in str(error):
                raise DataError(f"{address} is no valid address; a blank in it is written as %20.") from None
            if "Unrecognized filesystem" not in str(error):
                raise
            filesystem, path = _by_fsspec(address)
    return Place(filesystem, path, address.partition("?")[0])


def _with_options(address: str) -> str:
    """Of s3 with the region that the usual variables name: else AWS itself is asked, even about another store."""
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    name, value = ("retry_limit_seconds", _RETRY_SECONDS) if address.startswith("gs://") else ("region", region)
    if not address.startswith(("s3://", "gs://")) or not value or f"{name}=" in address.partition("?")[2]:
        return address
    return f"{address}{'&' if '?' in address else '?'}{name}={value}"


_top = lru_cache(maxsize=64)(place_at)  # a connection each


def _by_fsspec(address: str) -> tuple[Any, str]:
    from pyarrow import fs

    try:
        from fsspec.core import url_to_fs

        filesystem, path = url_to_fs(address)
    except (ImportError, ValueError):
        raise DataError(
            f"{address} cannot be read: neither pyarrow nor fsspec knows {address.partition('://')[0]}:// here; a "
            "package of its own may bring it."
        ) from None
    return fs.PyFileSystem(fs.FSSpecHandler(filesystem)), path
