"""Images listed in a table: a CSV or a parquet file with a path or the image itself in each row, or a data frame."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from PIL import Image

from homefold.data.archives import FileImage
from homefold.data.given import BytesImage, PillowImage
from homefold.data.index import ImageIndex, ImageSource, LoadRequest
from homefold.data.paths import reading, walking
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.data.rows import SPLITS, Row, Table, cell_text, index_rows
from homefold.data.stored_images import ColumnFile, ParquetFile, StoredImage
from homefold.errors import DataError
from homefold.runtime.text import as_text, counted

__all__ = [
    "TEXT_TABLES",
    "check_columns",
    "find_frame",
    "find_manifest",
    "is_manifest",
    "parquet_files",
    "read_frame",
    "rows_of_columns",
    "table_of_columns",
    "text_rows",
]

TEXT_TABLES = (".csv", ".tsv")
"""How the names of tables in text end."""

_EXPECTED = (
    "Expected a row for each image with the columns path (relative to the file), label and domain, and if there is an "
    "official one, split; in parquet and in a data frame the image itself may stand in image."
)
_SHARD = re.compile(r"([A-Za-z]+)-\d{5}-of-\d{5}")
_LONGEST_CELL = 1 << 24


def is_manifest(path: Path) -> bool:
    """Whether it is a table by its name, or a folder that holds nothing but parquet files."""
    if path.suffix.lower() in (*TEXT_TABLES, ".parquet"):
        return not os.path.isdir(path) or bool(parquet_files(path))
    return os.path.isdir(path) and bool(parquet_files(path))


def read_manifest(request: LoadRequest) -> Table:
    """All rows of a table."""
    root = request.folder
    if os.path.isdir(root):
        return _of_parquet(root, parquet_files(root))
    if not os.path.exists(root):
        raise DataError(f"There is no file {root}. {_EXPECTED}")
    return _of_text(root) if root.suffix.lower() in TEXT_TABLES else _of_parquet(root, [root])


@register_dataset(
    DatasetEntry(
        name="manifest",
        description="A table with a row for each image: CSV, TSV, parquet, or a pandas DataFrame in Python.",
        source="your own images",
        licence="your own",
        layout="<file>.csv or .tsv with the columns path, label, domain; <file>.parquet, or a folder of such, with "
        "path or image (bytes), label, domain",
        recognises=is_manifest,
        table=read_manifest,
    )
)
def find_manifest(request: LoadRequest) -> ImageIndex:
    """The images that a table lists; relative paths start from the table's folder."""
    return index_rows(read_manifest(request), request)


def find_frame(frame: Any, request: LoadRequest) -> ImageIndex:
    """The images of a pandas DataFrame; relative paths start from the request's root."""
    return index_rows(read_frame(frame, request), request)


def parquet_files(folder: Path) -> list[Path]:
    """The files of a folder that holds nothing but parquet; none of another."""
    with walking(folder), os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    return [folder / name for name in names] if all(name.endswith(".parquet") for name in names) else []


def _of_text(path: Path) -> Table:
    columns, rows = text_rows(path)
    return table_of_columns(path.stem, path, list(rows), columns, any_order=True)


def text_rows(path: Path) -> tuple[list[str], Iterator[Row]]:
    """The columns of a CSV or TSV, and its rows one after the other."""
    lines = _lines(path)
    columns = [name.strip().lower() for name in next(lines, (0, []))[1]]
    _check_columns(path, columns, ("path",))
    return columns, (_text_row(path, columns, number, cells) for number, cells in lines if any(map(str.strip, cells)))


def _lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of the line that it starts on."""
    csv.field_size_limit(_LONGEST_CELL)
    with reading(path, "a table in UTF-8"), path.open(encoding="utf-8-sig") as file:
        header = file.readline()
        delimiter = "\t" if path.suffix.lower() == ".tsv" else max(",;", key=header.count)
        reader = csv.reader(chain([header], file), delimiter=delimiter, strict=True)
        while True:
            number = reader.line_num + 1
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                raise DataError(f"{path}, line {number}: this is no row of a table ({error}). {_EXPECTED}") from None
            yield number, cells


def _text_row(path: Path, columns: Sequence[str], number: int, cells: Sequence[str]) -> Row:
    fault = "" if len(cells) == len(columns) else f"it has {counted(len(cells), 'cell')}, the header {len(columns)}"
    values = dict(zip(columns, cells, strict=False))
    return _path_row(path.parent, values.get("path", ""), f"line {number}", values, fault)


def _path_row(folder: Path, path: str, where: str, values: Mapping[str, Any], fault: str = "") -> Row:
    if not fault and not path.strip():
        fault = "path is empty"
    source = FileImage(Path(os.path.normpath(folder / path)) if path.strip() else folder)
    return Row(source, where, **_names(values), name=path, fault=fault)


def _names(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: cell_text(values.get(name)) for name in ("label", "domain", "split")}


def _check_columns(where: object, columns: Sequence[str], one_of: Sequence[str]) -> None:
    if not set(one_of) & set(columns):
        has = ", ".join(as_text(name) for name in columns if name) or "none"
        raise DataError(f"{where} has no column {' or '.join(one_of)}; its columns are {has}. {_EXPECTED}")
    for name in ("path", "image", "label", "domain", "split"):
        if list(columns).count(name) > 1:
            raise DataError(f"{where} has more than one column {name}. {_EXPECTED}")


def table_of_columns(name: str, root: Path, rows: Sequence[Row], columns: Iterable[str], *, any_order: bool) -> Table:
    """The table that these rows make, where its columns are called so."""
    return Table(
        name=as_text(name),
        root=root,
        rows=rows,
        expected=_EXPECTED,
        has_domains="domain" in columns,
        has_labels="label" in columns,
        any_order=any_order,
    )


def _of_parquet(root: Path, files: Sequence[Path]) -> Table:
    rows: list[Row] = []
    columns: set[str] = set()
    by_path = True
    shards = {file: match[1] for file in files if (match := _SHARD.fullmatch(file.stem)) and match[1] in SPLITS}
    official = len(set(shards.values())) > 1
    for file in files:
        stored = ParquetFile(file)
        by_path = by_path and not stored.image_column
        columns |= set(stored.columns)
        rows += rows_of_columns(stored, shards.get(file, "") if official else "", file.name if len(files) > 1 else "")
    return table_of_columns(root.stem, root, rows, columns, any_order=by_path)


def check_columns(stored: ColumnFile) -> None:
    """Complain of a parquet or arrow file without images and paths."""
    _check_columns(stored.file, stored.columns, ("image", "image.bytes", "path"))


def rows_of_columns(stored: ColumnFile, split: str = "", told: str = "") -> list[Row]:
    """The rows of a parquet or arrow file, counted from 0; `told` names the file where there are several."""
    check_columns(stored)
    columns = {name: stored.names(name) for name in ("label", "domain", "split", "path") if name in stored.columns}
    at = f"{told}, row" if told else "row"
    if not stored.image_column:
        return [
            _path_row(stored.file.parent, path, f"{at} {i}", {key: column[i] for key, column in columns.items()})
            for i, path in enumerate(columns["path"])
        ]
    paths = columns.get("path") or stored.image_paths()
    rows = []
    for i in range(len(stored)):
        values = {"split": split} | {key: column[i] for key, column in columns.items()}
        rows.append(Row(StoredImage(stored, i), f"{at} {i}", **_names(values), name=paths[i] if paths else ""))
    return rows


def read_frame(frame: Any, request: LoadRequest) -> Table:
    """The rows of a pandas DataFrame, counted from 0; relative paths start from the request's root."""
    folder = request.folder
    columns = [str(name) for name in frame.columns]
    _check_columns("The data frame", columns, ("path", "image"))
    used = {name: frame[name].tolist() for name in ("path", "image", "label", "domain", "split") if name in columns}
    by_path = "image" not in columns
    make = _frame_path if by_path else _frame_image
    rows = [make(folder, i, {name: values[i] for name, values in used.items()}) for i in range(len(frame))]
    return table_of_columns("data frame", Path("the data frame"), rows, columns, any_order=by_path)


def _frame_path(folder: Path, i: int, values: Mapping[str, Any]) -> Row:
    path = values["path"]
    if isinstance(path, str | os.PathLike):
        return _path_row(folder, os.fspath(path), f"row {i}", values)
    fault = f"path is {type(path).__name__}, not text" if cell_text(path) else ""
    return _path_row(folder, "", f"row {i}", values, fault)


def _frame_image(folder: Path, i: int, values: Mapping[str, Any]) -> Row:
    image, path, name = values["image"], values.get("path"), f"the data frame[{i}]"
    content = image.get("bytes") if isinstance(image, dict) else image
    source: ImageSource = FileImage(folder)
    fault = ""
    if isinstance(content, bytes | bytearray | memoryview):
        source = BytesImage(bytes(content), name)
    elif isinstance(content, Image.Image):
        source = PillowImage(content, name)
    else:
        fault = f"image is {type(image).__name__}; expected the bytes of an image file or an image of Pillow's"
    return Row(source, f"row {i}", **_names(values), name=path if isinstance(path, str) else "", fault=fault)
