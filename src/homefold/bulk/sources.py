"""What people give to be answered: where its images are listed, and of which kind the list is."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from homefold.bulk.places import Place, is_address, place_at
from homefold.data.archives import is_archive, is_compressed_tar, walk
from homefold.data.datasets.manifest import TEXT_TABLES, check_columns, parquet_files, text_rows
from homefold.data.datasets.saved_dataset import is_saved_dataset
from homefold.data.datasets.webdataset import shard_names, tars_in
from homefold.data.decoding.image import is_image_name
from homefold.data.paths import given_path
from homefold.data.rows import Row
from homefold.data.stored_images import ParquetFile
from homefold.errors import DataError

__all__ = ["Listed", "Source", "SourceFile", "base_of", "find_source", "opened_parquet", "stamp_of"]

Form = Literal["images", "parquet", "tars"]

_FORMS = (
    "a folder of images, a CSV or parquet file that lists them, parquet with their bytes, or WebDataset tars, here or "
    "at an address such as s3://bucket/photos"
)


class Listed(NamedTuple):
    """One image of a list.

    Args:
        name: its path or address.
        fault: what is wrong with its line of the list; empty if nothing is.
        stamp: changes with the image, where that costs nothing to know.
    """

    name: str
    fault: str = ""
    stamp: str = ""


@dataclass(frozen=True)
class SourceFile:
    """A parquet file or a tar.

    Args:
        name: its path or address.
        stamp: changes with its content.
        rows: how many images a parquet file has; a tar is not opened to be planned.
    """

    name: str
    stamp: str
    rows: int = 0


@dataclass(frozen=True)
class Source:
    """Images to answer for.

    Args:
        address: as it was given.
        form: how they are listed: one by one, in parquet files or in tars.
    """

    address: str
    form: Form

    def images(self) -> Iterator[Listed]:
        """Every image of a folder, or of a table in text, in an order that is always the same."""
        if is_address(self.address):
            place = place_at(self.address)
            return _images_listed_at(place) if _ending(place.name) in TEXT_TABLES else _images_below(place)
        path = given_path(self.address)
        return _images_listed(path) if _ending(path.name) in TEXT_TABLES else _images_in(path)

    def files(self) -> list[SourceFile]:
        """The parquet files or tars in their order."""
        if is_address(self.address):
            found = _files_at(place_at(self.address))
        else:
            path = given_path(self.address)
            if os.path.isdir(path):
                files = parquet_files(path) or tars_in(path)
            else:
                files = [path.parent / name for name in shard_names(path.name)]
            found = [(str(file), stamp_of(file)) for file in files]
        if self.form == "tars":
            return [SourceFile(*file) for file in found]
        base = base_of(self.address)
        return [SourceFile(name, stamp, _rows_in(name, base)) for name, stamp in found]

    def digest(self) -> str:
        """Changes with what is listed, and with the files that were looked at to list it."""
        found = hashlib.sha256()
        for entry in self.images() if self.form == "images" else self.files():
            found.update(repr(entry).encode("utf-8", "surrogateescape"))
        return found.hexdigest()[:24]


def find_source(address: str) -> Source:
    """What lies at a path or an address; an error where nothing does, or what cannot be read by many workers."""
    if is_address(address):
        place = place_at(address)
        if (form := _form_of(place.name)) is None:
            if not place.is_folder():
                raise DataError(f"{address} is no form of images that is known; expected {_FORMS}.")
            form = _form_of_names([file.name for file, _ in place.listed()[1]])
        return Source(address, form)
    path = given_path(address)
    if os.path.isdir(path):
        if is_saved_dataset(path):
            raise DataError(f"{path} is a dataset of arrow files; write it as parquet to have it answered in shards.")
        return Source(address, "parquet" if parquet_files(path) else "tars" if tars_in(path) else "images")
    if is_compressed_tar(path) or (is_archive(path) and path.suffix.lower() != ".tar"):
        raise DataError(f"{path} is no uncompressed tar, of which parts can be read; unpack it or pack it so.")
    form = _form_of(path.name)
    for name in shard_names(path.name):
        if not os.path.exists(path.parent / name):
            raise DataError(f"There is no file or folder {path.parent / name}.")
    if form is None:
        raise DataError(f"{path} is no form of images that is known; expected {_FORMS}.")
    return Source(address, form)


def base_of(address: str) -> Place | None:
    """The folder at an address that the names of its images begin with; None where they are paths of this machine."""
    if not is_address(address):
        return None
    place = place_at(address)
    return place if _form_of(place.name) is None else place.beside("")


def opened_parquet(name: str, base: Place | None) -> ParquetFile:
    """A parquet file here or at an address."""
    if base is None:
        return ParquetFile(Path(name))
    return ParquetFile(Path(name), base.named(name).open())


def _ending(name: str) -> str:
    return PurePosixPath(name).suffix.lower()


def _form_of(name: str) -> Form | None:
    """By its name; a folder has none that tells."""
    ending = _ending(name)
    return (
        "images"
        if ending in TEXT_TABLES
        else "parquet"
        if ending == ".parquet"
        else "tars"
        if ending == ".tar"
        else None
    )


def _form_of_names(names: list[str]) -> Form:
    """That of a folder with files of these names, as `parquet_files` and `tars_in` see one on this machine."""
    endings = set(map(_ending, names))
    if endings == {".parquet"}:
        return "parquet"
    return "tars" if ".tar" in endings and not any(map(is_image_name, names)) else "images"


def _images_in(folder: Path) -> Iterator[Listed]:
    for _, images, _ in walk([folder]):
        for image in images:
            yield Listed(str(image), stamp=stamp_of(image))


def stamp_of(file: Path) -> str:
    """The size of a file and when its content changed, alike for all machines that see it; empty where it is not."""
    try:
        status = os.stat(file)
    except OSError:
        return ""
    return f"{status.st_size}|{status.st_mtime_ns}"


def _images_below(place: Place) -> Iterator[Listed]:
    waiting = [place]
    while waiting:
        folders, files = waiting.pop().listed()
        for file, stamp in files:
            if is_image_name(file.name):
                yield Listed(file.address, stamp=stamp)
        waiting.extend(reversed(folders))


def _images_listed(path: Path) -> Iterator[Listed]:
    for row in text_rows(path)[1]:
        yield Listed(row.source.path if not row.fault and not is_address(row.name) else row.name, _fault(row))


def _images_listed_at(place: Place) -> Iterator[Listed]:
    with tempfile.TemporaryDirectory() as folder:
        for row in text_rows(place.fetch(Path(folder) / place.name))[1]:
            yield Listed(row.name if row.fault or is_address(row.name) else place.beside(row.name).address, _fault(row))


def _fault(row: Row) -> str:
    return f"{row.where}: {row.fault}" if row.fault else ""


def _files_at(place: Place) -> list[tuple[str, str]]:
    if _form_of(place.name) is None:
        return [
            (file.address, stamp) for file, stamp in place.listed()[1] if _ending(file.name) in (".parquet", ".tar")
        ]
    return [(file.address, file.stamp()) for file in map(place.beside, shard_names(place.name))]


def _rows_in(name: str, base: Place | None) -> int:
    stored = opened_parquet(name, base)
    check_columns(stored)
    return len(stored)
