"""WebDataset: tars in which an image and the files that describe it have one name up to its first dot."""

from __future__ import annotations

import json
import os
import re
import tarfile
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from homefold.data.archives import ArchiveImage, archive_images, archive_members, is_image, list_folder
from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.data.rows import Row, Table, cell_text, index_rows
from homefold.errors import DataError
from homefold.runtime.text import as_text

__all__ = ["find_webdataset", "read_webdataset", "shard_names", "tars_in"]

_EXPECTED = (
    "Expected samples of an image and a label, as 0001.jpg with 0001.cls (the class), or with 0001.json that holds "
    '"label", and "domain" unless a pattern tells it from the path.'
)
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_LOOKED_AT = 16
_MOST_SHARDS = 100_000


def is_webdataset(path: Path) -> bool:
    """Whether it is a tar with the label of an image beside it, a folder of such tars, or `part-{000..012}.tar`."""
    if _RANGE.search(path.name) and path.name.endswith(".tar"):
        return not os.path.exists(path)
    if os.path.isdir(path):
        tars = tars_in(path)
        return bool(tars) and _has_samples(tars[0])
    return path.suffix.lower() == ".tar" and os.path.isfile(path) and _has_samples(path)


def read_webdataset(request: LoadRequest) -> Table:
    """The samples of all tars in their order."""
    root = request.folder
    tars = _tars(root)
    rows = [row for tar in tars for row in _rows(tar, several=len(tars) > 1)]
    return Table(
        name=as_text(_RANGE.sub("", root.stem).strip("-_.") or root.stem),
        root=root,
        rows=rows,
        expected=_EXPECTED,
        has_domains=any(row.domain for row in rows),
        has_labels=any(row.label for row in rows),
    )


def _tars(root: Path) -> list[Path]:
    found = tars_in(root) if os.path.isdir(root) else [root.parent / name for name in shard_names(root.name)]
    if not found:
        raise DataError(f"There are no tars in {root}. {_EXPECTED}")
    if missing := [tar for tar in found if not os.path.isfile(tar)]:
        raise DataError(f"There is no file {missing[0]}. {_EXPECTED}")
    return found


def shard_names(name: str) -> list[str]:
    """What `{000..012}` in the name of a file stands for; one without is itself.

    >>> shard_names("part-{08..10}.tar")
    ['part-08.tar', 'part-09.tar', 'part-10.tar']
    """
    bounds = _RANGE.search(name)
    if bounds is None:
        return [name]
    first, last, width = int(bounds[1]), int(bounds[2]), len(bounds[1])
    if last - first >= _MOST_SHARDS:
        raise DataError(f"{name} stands for {last - first + 1} files, more than {_MOST_SHARDS}.")
    return [f"{name[: bounds.start()]}{i:0{width}}{name[bounds.end() :]}" for i in range(first, last + 1)]


def tars_in(folder: Path) -> list[Path]:
    """The tars of a folder that holds neither images nor folders, which would be a dataset of another form."""
    folders, images, others = list_folder(folder)
    if folders or images:
        return []
    return [path for path in others if path.suffix.lower() == ".tar" and not path.name.startswith(".")]


def _has_samples(tar: Path) -> bool:
    """Whether one of the first members describes an image of the same key."""
    try:
        with tarfile.open(tar, mode="r:") as archive:
            names = [member.name for member, _ in zip(archive, range(_LOOKED_AT), strict=False) if member.isreg()]
    except (OSError, tarfile.TarError, ValueError, EOFError):
        return False
    parts = [_parted(PurePosixPath(name)) for name in names]
    images = {key for name, (key, _) in zip(names, parts, strict=True) if is_image(Path(name))}
    return any(key in images for key, ending in parts if ending in ("cls", "json"))


def _parted(name: PurePosixPath) -> tuple[str, str]:
    """The key and the rest of a member's name.

    >>> _parted(PurePosixPath("train/0001.left.jpg"))
    ('train/0001', 'left.jpg')
    """
    stem, _, ending = name.name.partition(".")
    return str(name.parent / stem), ending.lower()


def _rows(tar: Path, *, several: bool) -> Iterator[Row]:
    described: dict[str, dict[str, bytes]] = {}
    for name, content in archive_members(tar, ".cls", ".json", ".domain").items():
        key, ending = _parted(name)
        described.setdefault(key, {})[ending] = content
    images: dict[str, list[tuple[PurePosixPath, ArchiveImage]]] = {}
    for name, image in archive_images(tar):
        images.setdefault(_parted(name)[0], []).append((name, image))
    for key, own in images.items():
        where = f"{tar.name}, sample {as_text(key)}" if several else f"sample {as_text(key)}"
        name, image = own[0]
        make = partial(Row, image, where, name=str(name))
        if len(own) > 1:
            yield make(fault=f"it has {len(own)} images, {', '.join(image.member for _, image in own)}; expected one")
            continue
        try:
            yield make(**_names(described.get(key, {})))
        except ValueError as error:
            yield make(fault=str(error))


def _names(files: Mapping[str, bytes]) -> dict[str, str]:
    """Label, domain and split of one sample; a `ValueError` says what is wrong."""
    facts: dict[str, Any] = {}
    if "json" in files:
        try:
            facts = json.loads(files["json"])
        except (ValueError, RecursionError):
            raise ValueError("its .json is not valid JSON") from None
        if not isinstance(facts, dict):
            raise ValueError("its .json is no object with label and domain")
    for name in ("label", "cls", "domain", "split"):
        if isinstance(facts.get(name), dict | list):
            raise ValueError(f"{name} in its .json is a {type(facts[name]).__name__}; expected text or a number")
    label = _text(files, "cls") or cell_text(facts.get("label")) or cell_text(facts.get("cls"))
    return {
        "label": label,
        "domain": _text(files, "domain") or cell_text(facts.get("domain")),
        "split": cell_text(facts.get("split")),
    }


def _text(files: Mapping[str, bytes], ending: str) -> str:
    try:
        return files.get(ending, b"").decode("utf-8-sig").strip()
    except UnicodeDecodeError:
        raise ValueError(f"its .{ending} is no text") from None


@register_dataset(
    DatasetEntry(
        name="webdataset",
        description="Tars of samples, each an image with its label beside it under the same key (WebDataset).",
        source="your own images",
        licence="your own",
        layout="<file>.tar, a folder of tars, or <file>-{000..012}.tar with <key>.jpg and <key>.cls, or <key>.json "
        "that holds label and domain",
        recognises=is_webdataset,
        table=read_webdataset,
    )
)
def find_webdataset(request: LoadRequest) -> ImageIndex:
    """The images of one tar or several, which are read in place."""
    return index_rows(read_webdataset(request), request)
