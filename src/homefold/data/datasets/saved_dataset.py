"""A dataset of Hugging Face's `datasets` on disk, as `save_to_disk` writes it; read without that package."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from homefold.data.datasets.manifest import rows_of_columns, table_of_columns
from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.paths import reading
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.data.rows import SPLITS, Row, Table, index_rows
from homefold.data.stored_images import ArrowFile
from homefold.errors import DataError

__all__ = ["find_saved_dataset"]

_SPLITS_FILE, _STATE_FILE = "dataset_dict.json", "state.json"


def is_saved_dataset(path: Path) -> bool:
    """Whether a folder holds what `save_to_disk` writes, of one split or of several."""
    return any(os.path.isfile(path / name) for name in (_SPLITS_FILE, _STATE_FILE)) and os.path.isdir(path)


def read_saved_dataset(request: LoadRequest) -> Table:
    """The rows of all splits."""
    root = request.folder
    if not is_saved_dataset(root):
        raise DataError(
            f"{root} is no dataset as save_to_disk writes it: there is neither {_SPLITS_FILE} nor {_STATE_FILE} in it."
        )
    splits = [""]
    if os.path.isfile(root / _SPLITS_FILE):
        splits = _value(root / _SPLITS_FILE, "splits")
        if not isinstance(splits, list) or not all(map(_is_name, splits)):
            raise DataError(f"{root / _SPLITS_FILE} was expected to hold the names of splits; got {splits!r}.")
    official = {split: split if split in SPLITS and len(splits) > 1 else "" for split in splits}
    rows: list[Row] = []
    columns: set[str] = set()
    for split in splits:
        for file in _files(root / split):
            stored = ArrowFile(file)
            columns |= set(stored.columns)
            rows += rows_of_columns(stored, official[split], file.relative_to(root).as_posix())
    return table_of_columns(root.resolve().name, root, rows, columns, any_order=False)


def _files(folder: Path) -> list[Path]:
    """The arrow files of one split, in their order."""
    state = folder / _STATE_FILE
    if _value(state, "_indices_data_files", ()):
        raise DataError(
            f"{folder} keeps its rows in another order by a list of indices; save it after flatten_indices()."
        )
    listed = _value(state, "_data_files")
    names = [entry.get("filename") if isinstance(entry, dict) else None for entry in listed or ()]
    if not names or not all(map(_is_name, names)):
        raise DataError(f"{state} was expected to name the dataset's arrow files (_data_files); it names {listed!r}.")
    return [folder / str(name) for name in names]


def _is_name(text: Any) -> bool:
    """Whether it names something in the same folder, and nothing outside."""
    return isinstance(text, str) and os.path.basename(text) == text and text not in ("", ".", "..")


def _value(path: Path, name: str, default: Any = None) -> Any:
    with reading(path, "a description of a saved dataset", "save the dataset anew"):
        content = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict):
            raise TypeError(f"it holds a {type(content).__name__}, not an object")
    return content.get(name, default)


@register_dataset(
    DatasetEntry(
        name="saved-dataset",
        description="A dataset of Hugging Face's datasets on disk (save_to_disk), of one split or several.",
        source="your own, or the Hugging Face Hub through its own tools",
        licence="that of the dataset",
        layout="<folder>/state.json and *.arrow, or <folder>/dataset_dict.json and such a folder for each split, with "
        "the columns image, label, domain",
        split_rule="the splits train, validation and test",
        recognises=is_saved_dataset,
        table=read_saved_dataset,
    )
)
def find_saved_dataset(request: LoadRequest) -> ImageIndex:
    """The images of a dataset that was saved to disk."""
    return index_rows(read_saved_dataset(request), request)
