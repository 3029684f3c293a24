"""PACS: photographs, art, cartoons and sketches of seven kinds of things, with its official split lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path, PurePosixPath

from homefold.data.archives import archive_texts
from homefold.data.index import ImageIndex
from homefold.data.layout import Layout, find_images_of
from homefold.data.paths import reading
from homefold.data.registry import DatasetEntry, LoadRequest, load_by_index, register_dataset
from homefold.data.sources import ArchiveImage
from homefold.errors import DataError

__all__ = ["PACS_CLASSES", "PACS_DOMAINS", "find_pacs"]

PACS_DOMAINS = ("art_painting", "cartoon", "photo", "sketch")
PACS_CLASSES = ("dog", "elephant", "giraffe", "guitar", "horse", "house", "person")
PACS_COUNTS = {
    "art_painting": (379, 255, 285, 184, 201, 295, 449),
    "cartoon": (389, 457, 346, 135, 324, 288, 405),
    "photo": (189, 202, 182, 186, 199, 280, 432),
    "sketch": (772, 740, 753, 608, 816, 80, 160),
}
"""Images of each class, in label order, as the official lists have them: 9,991 in all."""

_LAYOUT = Layout(
    "pacs",
    domains={"art_painting": ("art", "artpainting"), "cartoon": (), "photo": (), "sketch": ()},
    classes=dict.fromkeys(PACS_CLASSES, ()),
)
_LISTS = {"train": "train", "crossval": "val"}
_LIST_ENDING = "_kfold.txt"
_LIST_FOLDERS = ("splits", ".", "*/splits", "*")
_NAMED_AT_MOST = 5


@dataclass(frozen=True)
class _SplitList:
    """A `*_kfold.txt` list.

    Args:
        path: where it lies, for people.
        content: its bytes.
    """

    path: str
    content: bytes

    def lines(self) -> list[str]:
        try:
            return self.content.decode("utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise DataError(f"{self.path} is no text; take the official lists, or move it away.") from None


def find_pacs(request: LoadRequest) -> ImageIndex:
    """The images of PACS, with the official splits where `*_kfold.txt` lists lie beside them or in their archive."""
    assert request.root is not None
    index = find_images_of(_LAYOUT, request.root, domains=request.domains)
    folder = request.root if request.root.is_dir() else request.root.parent
    found = {domain: _lists_of(folder, domain) for domain in index.domain_names}
    if not any(found.values()):
        found = _packed_lists(index)
    if not any(found.values()):
        return index
    lacking = [domain for domain, lists in found.items() if len(lists) < len(_LISTS)]
    if lacking:
        warning = f"There are no complete split lists for {', '.join(lacking)} in {folder}: no official split is used."
        return replace(index, splits=(), warnings=(*index.warnings, warning))
    return _with_splits(index, found)


def _list_name(domain: str, kind: str) -> str:
    return f"{domain}_{kind}{_LIST_ENDING}"


def _lists_of(folder: Path, domain: str) -> dict[str, _SplitList]:
    """The list of each split, from the first place that has one."""
    lists: dict[str, _SplitList] = {}
    for kind in _LISTS:
        name = _list_name(domain, kind)
        path = next((path for place in _LIST_FOLDERS for path in sorted(folder.glob(f"{place}/{name}"))), None)
        if path is not None:
            with reading(path, "a list of images"):
                lists[kind] = _SplitList(str(path), path.read_bytes())
    return lists


def _packed_lists(index: ImageIndex) -> dict[str, dict[str, _SplitList]]:
    """The lists of each domain from the archives that its images lie in."""
    found: dict[str, dict[str, _SplitList]] = {domain: {} for domain in index.domain_names}
    archives = dict.fromkeys(source.archive for source in index.sources if isinstance(source, ArchiveImage))
    for archive in archives:
        texts = archive_texts(archive, _LIST_ENDING)
        for domain, lists in found.items():
            for kind in _LISTS:
                name = _list_name(domain, kind)
                if name in texts:
                    lists.setdefault(kind, _SplitList(f"{archive}/{name}", texts[name]))
    return found


def _with_splits(index: ImageIndex, lists: dict[str, dict[str, _SplitList]]) -> ImageIndex:
    split_of: dict[tuple[str, str, str], str] = {}
    for domain in index.domain_names:
        for kind, split in _LISTS.items():
            for key in _read_list(lists[domain][kind], domain):
                if split_of.setdefault(key, split) != split:
                    path, image = lists[domain][kind].path, "/".join(key)
                    raise DataError(f"{path} and another list both hold {image}. Take the official lists.")
    keys = [
        (index.domain_names[domain], index.class_names[label], PurePosixPath(source.path).stem)
        for domain, label, source in zip(index.domains.tolist(), index.labels.tolist(), index.sources, strict=True)
    ]
    unlisted = ["/".join(key) for key in keys if key not in split_of]
    if unlisted:
        raise DataError(
            f"{len(unlisted)} images of pacs in {index.root} stand in no official list: {_some(unlisted)}. Move them "
            "away, or move the *_kfold.txt lists away to have a seeded split drawn instead."
        )
    warnings = index.warnings
    absent = sorted("/".join(key) for key in split_of.keys() - set(keys))
    if absent:
        warnings = (*warnings, f"{len(absent)} images of the official lists are not in {index.root}: {_some(absent)}.")
    return replace(index, splits=tuple(split_of[key] for key in keys), warnings=warnings)


def _read_list(split_list: _SplitList, domain: str) -> Iterable[tuple[str, str, str]]:
    """`(domain, class, stem)` of every line `domain/class/name.ext label`; labels count from 1 and must agree."""
    path = split_list.path
    for number, line in enumerate(split_list.lines(), start=1):
        if not line.strip():
            continue
        name, _, label = line.strip().rpartition(" ")
        parts = PurePosixPath(name.strip()).parts
        if len(parts) < 3 or parts[-3] != domain or not label.isdigit():
            raise DataError(f"{path}, line {number}: expected '{domain}/<class>/<image> <label>'; got {line!r}.")
        if parts[-2] not in PACS_CLASSES:
            raise DataError(f"{path}, line {number}: there is no class {parts[-2]!r}; got {line!r}.")
        expected = PACS_CLASSES.index(parts[-2]) + 1
        if int(label) != expected:
            raise DataError(
                f"{path}, line {number}: the label of {parts[-2]} is {expected}, since these lists count from 1; "
                f"got {label}. Take the official lists."
            )
        yield domain, parts[-2], PurePosixPath(parts[-1]).stem


def _some(texts: list[str]) -> str:
    rest = len(texts) - _NAMED_AT_MOST
    return ", ".join(texts[:_NAMED_AT_MOST]) + (f" and {rest} more" if rest > 0 else "")


register_dataset(
    DatasetEntry(
        name="pacs",
        description="Seven kinds of things as art paintings, cartoons, photos and sketches: 9,991 images of 227 px.",
        source="its authors' page (sketchx.eecs.qmul.ac.uk/downloads), or DomainBed's download script",
        licence="research use; the images belong to their makers",
        layout="<root>/<domain>/<class>/<image>, in folders, one tar or zip a domain, or one for all; official "
        "<domain>_train_kfold.txt and <domain>_crossval_kfold.txt in <root>/splits, <root> or the archive",
        domains=PACS_DOMAINS,
        classes=PACS_CLASSES,
        embedded=False,
        load=load_by_index(find_pacs),
        index=find_pacs,
        published={domain: dict(zip(PACS_CLASSES, counts, strict=True)) for domain, counts in PACS_COUNTS.items()},
    )
)
