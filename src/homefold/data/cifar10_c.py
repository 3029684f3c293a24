"""CIFAR-10 and its corruptions: clean training images as one domain, each corruption × severity as another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from homefold.data.array_files import LabelledArray, index_arrays, read_cifar_batch, read_npz
from homefold.data.dataset import DomainDataset
from homefold.data.index import ImageIndex
from homefold.data.paths import reading
from homefold.data.registry import DatasetEntry, LoadRequest, load_by_index, register_dataset
from homefold.data.sources import ArrayImage, ArrayImages
from homefold.errors import DataError

__all__ = ["CIFAR10_CLASSES", "CORRUPTIONS", "SEVERITIES", "find_cifar10_c", "load_cifar10_c"]

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CORRUPTIONS = (
    "gaussian_noise",
    "shot_noise",
    "impulse_noise",
    "defocus_blur",
    "glass_blur",
    "motion_blur",
    "zoom_blur",
    "snow",
    "frost",
    "fog",
    "brightness",
    "contrast",
    "elastic_transform",
    "pixelate",
    "jpeg_compression",
    "speckle_noise",
    "gaussian_blur",
    "spatter",
    "saturate",
)
SEVERITIES = (1, 2, 3, 4, 5)

_CLEAN = "clean"
_SIDE = 32
_DOMAINS = (_CLEAN, *(f"{corruption}-{severity}" for corruption in CORRUPTIONS for severity in SEVERITIES))
_PLACES = (".", "*", "*/*")
_load_by_index = load_by_index(lambda request: find_cifar10_c(request), usual_size=(_SIDE, _SIDE))


def find_cifar10_c(request: LoadRequest) -> ImageIndex:
    """The domains that are there: `clean` (CIFAR-10's 50,000 training images) and `<corruption>-<severity>`."""
    root = _checked_root(request)
    wanted = _DOMAINS if request.domains is None else request.domains
    found: dict[str, list[LabelledArray]] = {}
    for domain in wanted:
        parts = _clean(root) if domain == _CLEAN else _corrupted(root, domain)
        if parts:
            found[domain] = parts
        elif request.domains is not None:
            raise DataError(f"There are no files of {domain} in {root}. {_EXPECTED}")
    if not found:
        raise DataError(f"There are no files of CIFAR-10 or CIFAR-10-C in {root}. {_EXPECTED}")
    missing = [domain for domain in wanted if domain not in found]
    warnings = (f"cifar10-c in {root} has no files of {_some(missing)}.",) if missing else ()
    return index_arrays("cifar10-c", root, found, CIFAR10_CLASSES, warnings)


def load_cifar10_c(request: LoadRequest) -> DomainDataset:
    """Neighbouring severities of one corruption are mapped from the official file itself; all else is cached."""
    _checked_root(request)
    size = request.size or (_SIDE, _SIDE)
    wanted = request.domains or ()
    corruptions = {domain.rpartition("-")[0] for domain in wanted}
    if size != (_SIDE, _SIDE) or len(corruptions) != 1 or _CLEAN in wanted or not _are_neighbours(wanted):
        return _load_by_index(request)
    index = find_cifar10_c(request)
    first = index.sources[0]
    assert isinstance(first, ArrayImage)
    row = first.images.first
    return DomainDataset(
        images=_mapped(first.images.file)[row : row + len(index)],
        labels=index.labels,
        domains=index.domains,
        class_names=index.class_names,
        domain_names=index.domain_names,
        name=index.name,
        paths=tuple(source.path for source in index.sources),
        splits=index.splits,
    )


def _are_neighbours(domains: Sequence[str]) -> bool:
    severities = [int(domain.rpartition("-")[2]) for domain in domains]
    return severities == list(range(severities[0], severities[0] + len(severities)))


def _checked_root(request: LoadRequest) -> Path:
    root = request.root
    assert root is not None
    if not root.is_dir():
        raise DataError(f"There is no folder {root} to look for cifar10-c in.")
    for domain in request.domains or ():
        if domain not in _DOMAINS:
            raise DataError(
                f"There is no domain {domain!r} in cifar10-c; it has clean and <corruption>-<severity>, such as fog-3, "
                f"with the corruptions {', '.join(CORRUPTIONS)} and severities 1 to 5."
            )
    return root


def _find(root: Path, name: str) -> Path | None:
    paths = (path for place in _PLACES for path in sorted(root.glob(f"{place}/{name}")))
    return next((path for path in paths if not _is_cifar100(path.relative_to(root))), None)


def _is_cifar100(path: Path) -> bool:
    """CIFAR-100-C has files of the same names, and often lies beside CIFAR-10-C."""
    return any("cifar100" in folder.casefold().replace("-", "").replace("_", "") for folder in path.parts[:-1])


def _clean(root: Path) -> list[LabelledArray]:
    packed = _find(root, "cifar10.npz")
    if packed is not None:
        train = read_npz(packed, "train")
        return [train] if train is not None else []
    first = _find(root, "data_batch_1")
    if first is None:
        return []
    batches = [first.with_name(f"data_batch_{number}") for number in range(1, 6)]
    absent = [str(batch) for batch in batches if not batch.exists()]
    if absent:
        raise DataError(f"CIFAR-10 is incomplete: there is no {', '.join(absent)}.")
    return [read_cifar_batch(batch, "train") for batch in batches]


def _corrupted(root: Path, domain: str) -> list[LabelledArray]:
    corruption, _, severity = domain.rpartition("-")
    path = _find(root, f"{corruption}.npy")
    if path is None:
        return []
    labels_path = path.with_name("labels.npy")
    if not labels_path.exists():
        raise DataError(f"There is no labels.npy beside {path}; it belongs to CIFAR-10-C.")
    array, labels = _mapped(path), _mapped(labels_path)
    if len(array) != len(labels) or len(array) % len(SEVERITIES) or labels.ndim != 1:
        raise DataError(
            f"{path} has {len(array)} images and {labels_path} {labels.shape} labels; expected as many of each, the "
            "five severities one after the other."
        )
    n = len(array) // len(SEVERITIES)
    start = (int(severity) - 1) * n
    images = ArrayImages(path, n, lambda: array[start : start + n], first=start)
    return [LabelledArray(images, np.asarray(labels[start : start + n], dtype=np.int64), "test")]


def _mapped(path: Path) -> np.ndarray:
    with reading(path, "an .npy"):
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    if array.dtype.kind not in "iu":
        raise DataError(f"{path} must hold integers; it holds {array.dtype}.")
    return array


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more domains" if len(names) > 5 else "")


_EXPECTED = (
    "Expected CIFAR-10-C/<corruption>.npy and labels.npy, and cifar-10-batches-py/data_batch_1 to 5 (homefold data get "
    "cifar10 --to DIR) or cifar10.npz with x_train and y_train."
)

_ENTRY = DatasetEntry(
    name="cifar10-c",
    description="CIFAR-10's training images (clean), and its test images under 19 corruptions in 5 severities.",
    source="CIFAR-10: homefold data get cifar10 --to DIR; CIFAR-10-C: Zenodo record 2535967",
    licence="CIFAR-10: none stated, cite its report; CIFAR-10-C: CC BY 4.0",
    layout="<root>/cifar-10-batches-py/data_batch_1…5 or <root>/cifar10.npz, and <root>/CIFAR-10-C/<corruption>.npy "
    "with labels.npy",
    domains=_DOMAINS,
    classes=CIFAR10_CLASSES,
    embedded=False,
    load=load_cifar10_c,
    index=find_cifar10_c,
    published={domain: dict.fromkeys(CIFAR10_CLASSES, 1000) for domain in _DOMAINS},
)
register_dataset(replace(_ENTRY, published={**(_ENTRY.published or {}), _CLEAN: dict.fromkeys(CIFAR10_CLASSES, 5000)}))
