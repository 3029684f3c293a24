"""PACS: photographs, art, cartoons and sketches of seven kinds of things, with its official split lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import PurePosixPath

from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.layout import Layout, find_images_of
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.data.split_lists import SplitList, lists_beside, lists_packed
from homefold.errors import DataError
from homefold.runtime.text import some

__all__ = ["PACS_CLASSES", "PACS_COUNTS", "PACS_DOMAINS", "find_pacs"]

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
_LIST_PLACES = ("splits", ".", "*/splits", "*")


@register_dataset(
    DatasetEntry(
        name="pacs",
        description="Seven kinds of things as art paintings, cartoons, photos and sketches: 9,991 images of 227 px.",
        source="its authors' page (sketchx.eecs.qmul.ac.uk/downloads), or DomainBed's download script",
        licence="research use; the images belong to their makers",
        layout="<root>/<domain>/<class>/<image>, in folders, one tar or zip a domain, or one for all; official "
        "<domain>_train_kfold.txt and <domain>_crossval_kfold.txt in <root>/splits, <root> or the archive",
        domains=PACS_DOMAINS,
        classes=PACS_CLASSES,
        split_rule="the lists <domain>_train_kfold.txt and <domain>_crossval_kfold.txt",
        published={domain: dict(zip(PACS_CLASSES, counts, strict=True)) for domain, counts in PACS_COUNTS.items()},
    )
)
def find_pacs(request: LoadRequest) -> ImageIndex:
    """The images of PACS, with the official splits where `*_kfold.txt` lists lie beside them or in their archive."""
    index = find_images_of(_LAYOUT, request)
    wanted = {domain: [_list_name(domain, kind) for kind in _LISTS] for domain in index.domain_names}
    every = [name for names in wanted.values() for name in names]
    lists = lists_beside(request.folder, every, _LIST_PLACES) or lists_packed(index, every)
    if not lists:
        return index
    lacking = [domain for domain, names in wanted.items() if not lists.keys() >= set(names)]
    if lacking:
        warning = (
            f"There are no complete split lists for {', '.join(lacking)} in {index.root}: no official split is used."
        )
        return replace(index, warnings=(*index.warnings, warning), splits=())
    return _with_splits(index, lists)


def _list_name(domain: str, kind: str) -> str:
    return f"{domain}_{kind}{_LIST_ENDING}"


def _with_splits(index: ImageIndex, lists: dict[str, SplitList]) -> ImageIndex:
    split_of: dict[tuple[str, str, str], str] = {}
    for domain in index.domain_names:
        for kind, split in _LISTS.items():
            found = lists[_list_name(domain, kind)]
            for key in _read_list(found, domain):
                if split_of.setdefault(key, split) != split:
                    raise DataError(
                        f"{found.path} and another list both hold {'/'.join(key)}. Take the official lists."
                    )
    keys = [
        (index.domain_names[domain], index.class_names[label], PurePosixPath(source.path).stem)
        for domain, label, source in zip(index.domains.tolist(), index.labels.tolist(), index.sources, strict=True)
    ]
    unlisted = ["/".join(key) for key in keys if key not in split_of]
    if unlisted:
        raise DataError(
            f"{len(unlisted)} images of pacs in {index.root} stand in no official list: {some(unlisted)}. Move them "
            "away, or move the *_kfold.txt lists away to have a seeded split drawn instead."
        )
    warnings = index.warnings
    absent = sorted("/".join(key) for key in split_of.keys() - set(keys))
    if absent:
        warnings = (*warnings, f"{len(absent)} images of the official lists are not in {index.root}: {some(absent)}.")
    return replace(index, splits=tuple(split_of[key] for key in keys), warnings=warnings)


def _read_list(found: SplitList, domain: str) -> Iterator[tuple[str, str, str]]:
    """`(domain, class, stem)` of every line `domain/class/name.ext label`; labels count from 1 and must agree."""
    for number, line in found.lines():
        name, _, label = line.rpartition(" ")
        parts = PurePosixPath(name.strip()).parts
        if len(parts) < 3 or parts[-3] != domain or not label.isdigit():
            raise DataError(f"{found.path}, line {number}: expected '{domain}/<class>/<image> <label>'; got {line!r}.")
        if parts[-2] not in PACS_CLASSES:
            raise DataError(f"{found.path}, line {number}: there is no class {parts[-2]!r}; got {line!r}.")
        expected = PACS_CLASSES.index(parts[-2]) + 1
        if int(label) != expected:
            raise DataError(
                f"{found.path}, line {number}: the label of {parts[-2]} is {expected}, since these lists count from 1; "
                f"got {label}. Take the official lists."
            )
        yield domain, parts[-2], PurePosixPath(parts[-1]).stem
