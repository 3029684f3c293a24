"""Camelyon17-WILDS: patches of lymph nodes from five hospitals, with tumour or without."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from homefold.data.archives import FileImage
from homefold.data.index import ImageIndex, LoadRequest, check_domains
from homefold.data.paths import reading
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.errors import DataError

__all__ = ["find_camelyon17"]

_COUNTS = {"center_0": 59436, "center_1": 34904, "center_2": 85054, "center_3": 129838, "center_4": 146722}
_CLASSES = ("normal", "tumor")
_COLUMNS = ("patient", "node", "x_coord", "y_coord", "tumor", "center", "split")
_SPLIT_OF_CENTER = {"1": "val", "2": "test"}
"""Hospitals that nothing is trained on; of the others the column `split` says 0 for training and 1 for validation."""
_SPLITS = {"0": "train", "1": "val"}
_EXPECTED = "Expected metadata.csv and patches/patient_<patient>_node_<node>/<patch>.png, as WILDS unpacks them."


class _Patch(NamedTuple):
    image: FileImage
    label: int
    domain: str
    split: str


@register_dataset(
    DatasetEntry(
        name="camelyon17",
        description="Patches of lymph nodes from five hospitals, with tumour or without: 455,954 of 96 px.",
        source="WILDS (wilds.stanford.edu), its package or camelyon17_v1.0.tar.gz",
        licence="CC0",
        layout="<root>/metadata.csv and <root>/patches/patient_<patient>_node_<node>/<patch>.png, or these in "
        "<root>/camelyon17_v1.0",
        domains=tuple(_COUNTS),
        classes=_CLASSES,
        split_rule="WILDS': center_1 is val, center_2 test, the others train and (id_val) val; --targets center_2",
        # Of each class none are published, so hospitals are compared as a whole.
        published=_COUNTS,
        usual_size=(96, 96),
    )
)
def find_camelyon17(request: LoadRequest) -> ImageIndex:
    """The patches that metadata.csv lists, by hospital; no folder is searched."""
    wanted = tuple(_COUNTS) if request.domains is None else request.domains
    check_domains(wanted, tuple(_COUNTS), "camelyon17")
    path = _metadata(request.folder)
    of_domain: dict[str, list[_Patch]] = {domain: [] for domain in wanted}
    with reading(path, "the metadata of Camelyon17"), path.open(encoding="utf-8-sig", newline="") as file:
        for patch in _patches(path, csv.DictReader(file)):
            if patch.domain in of_domain:
                of_domain[patch.domain].append(patch)
    found = {domain: patches for domain, patches in of_domain.items() if patches}
    missing = [domain for domain in wanted if domain not in found]
    if not found or (missing and request.domains is not None):
        raise DataError(f"{path} lists no patches of {', '.join(missing)}. {_EXPECTED}")
    patches = [patch for own in found.values() for patch in own]
    return ImageIndex(
        name="camelyon17",
        root=request.folder,
        sources=[patch.image for patch in patches],
        labels=np.array([patch.label for patch in patches], np.int64),
        domains=np.repeat(np.arange(len(found)), [len(own) for own in found.values()]),
        class_names=_CLASSES,
        domain_names=tuple(found),
        splits=tuple(patch.split for patch in patches),
        warnings=(f"{path} lists no patches of {', '.join(missing)}.",) if missing else (),
    )


def _metadata(root: Path) -> Path:
    found = next((path for place in (".", "*") for path in sorted(root.glob(f"{place}/metadata.csv"))), None)
    if found is None:
        raise DataError(f"There is no metadata.csv in {root}. {_EXPECTED}")
    return found


def _patches(path: Path, rows: csv.DictReader[str]) -> Iterator[_Patch]:
    if lacking := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
        raise DataError(f"{path} has no column {', '.join(lacking)}. {_EXPECTED}")
    folder = path.parent / "patches"
    for row in rows:
        patient, node, x, y, tumor, center, split = (row[name] or "" for name in _COLUMNS)
        named, domain = _SPLIT_OF_CENTER.get(center) or _SPLITS.get(split), f"center_{center}"
        if named is None or domain not in _COUNTS or tumor not in ("0", "1") or not (patient and node and x and y):
            raise DataError(
                f"{path}, line {rows.line_num}: expected a patch with a tumor of 0 or 1, a center of 0 to 4 and a "
                f"split of 0 or 1; got tumor {tumor!r}, center {center!r}, split {split!r}."
            )
        place = f"patient_{patient}_node_{node}"
        image = FileImage(folder / place / f"patch_{place}_x_{x}_y_{y}.png")
        yield _Patch(image, int(tumor), domain, named)
