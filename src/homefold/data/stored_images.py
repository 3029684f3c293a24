"""Images whose bytes stand in a column of a parquet or arrow file, or in memory."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from homefold.data.decoding.image import BadImageError, Resize, decode_image
from homefold.data.index import Stamp, file_stamp
from homefold.data.paths import reading
from homefold.data.rows import cell_text
from homefold.errors import DataError

__all__ = ["ArrowFile", "ColumnFile", "ParquetFile", "StoredImage", "require_pyarrow"]

_GROUPS_KEPT = 2  # of a parquet file, in memory: images are read in their order
_READ_AT_ONCE = 1 << 23
_IMAGES_AT_ONCE, _PATHS_AT_ONCE = 16, 1 << 14
_ADVICE = "it is damaged or cut off: write or fetch it anew"


def require_pyarrow(path: Path) -> Any:
    """The module pyarrow, or a sentence that says how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise DataError(f"{path} needs the pyarrow package to be read: pip install 'homefold[parquet]'.") from None
    return pyarrow


@dataclass(frozen=True, eq=False, slots=True)
class StoredImage:
    """The image in one row of a file."""

    stored: ColumnFile
    row: int

    @property
    def path(self) -> str:
        return f"{self.stored.file}[{self.row}]"

    def stamp(self) -> Stamp:
        now = file_stamp(self.stored.file)
        # A file that changed since its table was read would give other images.
        if now != self.stored.stamp:
            raise DataError(f"{self.stored.file} changed while it was being read; start again when it is complete.")
        return Stamp(f"{now.text}|{self.row}", now.changed_ns)

    def digest(self) -> str:
        content = self.stored.image(self.row)
        return hashlib.blake2b(content, digest_size=16).hexdigest() if content else ""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        content = self.stored.image(self.row)
        if not content:
            raise BadImageError(self.path, "has no bytes")
        return decode_image(
            io.BytesIO(content), size=size, resize=resize, max_megapixels=max_megapixels, name=self.path
        )


class ColumnFile(ABC):
    """A file of columns of which one may hold images; values are read when they are asked for.

    An image is binary, or binary with its path beside it (`image.bytes` and `image.path`, as Hugging Face writes it).
    """

    def __init__(self, file: Path) -> None:
        self.file = file
        self.pyarrow = require_pyarrow(file)
        self.stamp = file_stamp(file)

    @property
    @abstractmethod
    def schema(self) -> Any:
        """The file's schema, as pyarrow has it."""

    @abstractmethod
    def __len__(self) -> int:
        """How many rows it has."""

    @abstractmethod
    def _values(self, column: str, part: str = "") -> list[Any]:
        """All values of a column, or of a part of its structure."""

    @abstractmethod
    def image(self, row: int) -> bytes | None:
        """The bytes of an image; None where there are none. May be called from several threads."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Their names."""
        return tuple(self.schema.names)

    @cached_property
    def image_column(self) -> str:
        """The column that holds the bytes of images; empty where none does."""
        types = self.pyarrow.types
        for name in ("image", "image.bytes"):
            if name in self.columns:
                kind = self.schema.field(name).type
                if types.is_struct(kind) and kind.get_field_index("bytes") >= 0:
                    kind = kind.field("bytes").type
                if types.is_binary(kind) or types.is_large_binary(kind) or types.is_null(kind):
                    return name
                raise DataError(
                    f"The column {name} of {self.file} holds {self.schema.field(name).type}; expected the bytes of an "
                    "image file, or a structure with bytes and path."
                )
        return ""

    @property
    def image_is_structure(self) -> bool:
        """Whether a path may stand beside the bytes of an image."""
        return bool(self.image_column) and bool(self.pyarrow.types.is_struct(self.schema.field(self.image_column).type))

    def names(self, column: str) -> list[str]:
        """The values of a column as text, empty for none; the numbers of a class have its name where it is known."""
        classes = self._class_names(column)
        values = self._values(column) if column in self.columns else []
        if not classes:
            return [cell_text(value) for value in values]
        return [classes[value] if isinstance(value, int) and 0 <= value < len(classes) else "" for value in values]

    def image_paths(self) -> list[str]:
        """The path beside the bytes of each image, empty where there is none."""
        if "image.path" in self.columns:
            return [cell_text(value) for value in self._values("image.path")]
        if not self.image_is_structure or self.schema.field(self.image_column).type.get_field_index("path") < 0:
            return []
        return [cell_text(value) for value in self._values(self.image_column, "path")]

    def _class_names(self, column: str) -> Sequence[str]:
        """The names that Hugging Face keeps of a column of classes."""
        try:
            features = json.loads((self.schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"]
            names = features[column]["names"]
        except (KeyError, TypeError, ValueError):
            return ()
        return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else ()


class ParquetFile(ColumnFile):
    """A parquet file. Images are read by row groups, of which the last ones stay in memory.

    Args:
        file: what it is called, and where it is read unless it is open already.
        opened: it, as pyarrow has open files; one that lies elsewhere, for example.
    """

    def __init__(self, file: Path, opened: Any = None) -> None:
        super().__init__(file)
        from pyarrow import parquet

        with self._reading():
            given = file if opened is None else opened
            self._parquet = parquet.ParquetFile(given, buffer_size=_READ_AT_ONCE, pre_buffer=False)
        counts = [self._parquet.metadata.row_group(i).num_rows for i in range(self._parquet.num_row_groups)]
        self._starts = np.cumsum([0, *counts])
        self._groups: OrderedDict[int, Any] = OrderedDict()
        self._lock = threading.Lock()

    def _reading(self) -> Any:
        return reading(self.file, "a parquet file", _ADVICE)

    @property
    def schema(self) -> Any:
        return self._parquet.schema_arrow

    def __len__(self) -> int:
        return int(self._starts[-1])

    def _values(self, column: str, part: str = "") -> list[Any]:
        with self._reading(), self._lock:
            found = self._parquet.read(columns=[f"{column}.{part}" if part else column]).column(0)
            return list((_part(found, part) if part else found).to_pylist())

    @property
    def _bytes_of_images(self) -> str:
        return f"{self.image_column}.bytes" if self.image_is_structure else self.image_column

    def stream(self, rows: range) -> Iterator[Any]:
        """The bytes of images in these rows, or their paths where there are none, one after the other.

        No row group is in memory as a whole: tools write a million images into one.
        """
        first = self._group_of(rows.start)
        groups, at = list(range(first, self._group_of(rows.stop - 1) + 1)), int(self._starts[first])
        column, at_once = (self._bytes_of_images, _IMAGES_AT_ONCE) if self.image_column else ("path", _PATHS_AT_ONCE)
        with self._reading():
            for batch in self._parquet.iter_batches(at_once, groups, [column]):
                for i in range(max(rows.start - at, 0), min(rows.stop - at, len(batch))):
                    yield _content(batch.column(0), i)
                at += len(batch)
                if at >= rows.stop:
                    return

    def _group_of(self, row: int) -> int:
        return int(np.searchsorted(self._starts, row, side="right")) - 1

    def image(self, row: int) -> bytes | None:
        group = self._group_of(row)
        return _content(self._group(group), row - int(self._starts[group]))

    def _group(self, group: int) -> Any:
        with self._lock, self._reading():
            if group not in self._groups:
                self._groups[group] = self._parquet.read_row_group(group, columns=[self._bytes_of_images]).column(0)
                while len(self._groups) > _GROUPS_KEPT:
                    self._groups.popitem(last=False)
            self._groups.move_to_end(group)
            return self._groups[group]


class ArrowFile(ColumnFile):
    """An arrow file, as a stream or with a table at its end; its pages are mapped, and read when they are needed."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        ipc = self.pyarrow.ipc
        with reading(file, "an arrow file", _ADVICE):
            mapped = self.pyarrow.memory_map(str(file))
            try:
                self._table = ipc.open_stream(mapped).read_all()
            except self.pyarrow.ArrowInvalid:
                self._table = ipc.open_file(mapped).read_all()

    @property
    def schema(self) -> Any:
        return self._table.schema

    def __len__(self) -> int:
        return int(self._table.num_rows)

    def _values(self, column: str, part: str = "") -> list[Any]:
        found = self._table.column(column)
        return list((_part(found, part) if part else found).to_pylist())

    def image(self, row: int) -> bytes | None:
        return _content(self._table.column(self.image_column), row)


def _part(column: Any, part: str) -> Any:
    """One field of a column of structures."""
    from pyarrow import compute

    return compute.struct_field(column, part)


def _content(column: Any, row: int) -> bytes | None:
    value = column[row].as_py()
    return value.get("bytes") if isinstance(value, dict) else value
