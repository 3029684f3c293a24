"""CIFAR-10 and its corruptions: clean training images as one domain, each corruption × severity as another."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from homefold.data.arrays import ArrayFile, LabelledArray, index_arrays
from homefold.data.cifar10 import CIFAR10_CLASSES, CIFAR10_FORMS, cifar10_images, find_cifar_file
from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.paths import reading
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.errors import DataError

__all__ = ["CORRUPTIONS", "SEVERITIES", "find_cifar10_c"]

_NAMES = """
    gaussian_noise shot_noise impulse_noise defocus_blur glass_blur motion_blur zoom_blur snow frost fog brightness
    contrast elastic_transform pixelate jpeg_compression speckle_noise gaussian_blur spatter saturate
"""
CORRUPTIONS = tuple(_NAMES.split())
SEVERITIES = (1, 2, 3, 4, 5)

_CLEAN = "clean"
_SIZE = (32, 32)
_CORRUPTED = tuple(f"{corruption}-{severity}" for corruption in CORRUPTIONS for severity in SEVERITIES)
_EXPECTED = f"Expected CIFAR-10-C/<corruption>.npy and labels.npy, and CIFAR-10 as {CIFAR10_FORMS}."


@register_dataset(
    DatasetEntry(
        name="cifar10-c",
        description="CIFAR-10's training images (clean), and its test images under 19 corruptions in 5 severities.",
        source="CIFAR-10: homefold data get cifar10 --to DIR; CIFAR-10-C: Zenodo record 2535967, or homefold data make "
        "cifar10-c DIR",
        licence="CIFAR-10: none stated, cite its report; CIFAR-10-C: CC BY 4.0",
        layout="<root>/CIFAR-10-C/<corruption>.npy with labels.npy, and in <root> cifar-10-batches-py, cifar10.npz, "
        "{train,test}/<class>/<image> or these in cifar10….tar.xz",
        domains=(_CLEAN, *_CORRUPTED),
        classes=CIFAR10_CLASSES,
        split_rule="clean is for training, the corrupted images are for testing",
        published={
            domain: dict.fromkeys(CIFAR10_CLASSES, 5000 if domain == _CLEAN else 1000)
            for domain in (_CLEAN, *_CORRUPTED)
        },
        usual_size=_SIZE,
        downloads=("CIFAR10",),
        after_download="This is CIFAR-10, the domain `clean` of cifar10-c. The corrupted images come from Zenodo "
        "record 2535967 (unpack CIFAR-10-C.tar in {target}), or make them: homefold data make cifar10-c {target}. "
        "Next: homefold data verify cifar10-c {target}",
    )
)
def find_cifar10_c(request: LoadRequest) -> ImageIndex:
    """The domains that are there: `clean` (CIFAR-10's 50,000 training images) and `<corruption>-<severity>`."""
    for domain in request.domains or ():
        if domain not in (_CLEAN, *_CORRUPTED):
            raise DataError(
                f"There is no domain {domain!r} in cifar10-c; it has clean and <corruption>-<severity>, such as fog-3, "
                f"with the corruptions {', '.join(CORRUPTIONS)} and severities 1 to 5."
            )

    def read(domain: str) -> list[LabelledArray]:
        return cifar10_images(request.folder, "train") if domain == _CLEAN else _corrupted(request.folder, domain)

    return index_arrays(request, "cifar10-c", (_CLEAN, *_CORRUPTED), CIFAR10_CLASSES, read, _EXPECTED)


def _corrupted(root: Path, domain: str) -> list[LabelledArray]:
    """A fifth of the published file of all severities, or a file of this severity alone, as `make` may leave it."""
    corruption, _, severity = domain.rpartition("-")
    path, alone = find_cifar_file(root, f"{corruption}.npy"), find_cifar_file(root, f"{domain}.npy")
    parts = len(SEVERITIES)
    if path is None and alone is not None:
        path, parts, severity = alone, 1, "1"
    if path is None:
        return []
    labels_path = path.with_name("labels.npy")
    if not labels_path.exists():
        raise DataError(f"There is no labels.npy beside {path}; it belongs to CIFAR-10-C.")
    array, labels = _mapped(path), _mapped(labels_path)
    n = len(array) // parts
    if len(array) % parts or labels.shape != (n * len(SEVERITIES),):
        raise DataError(
            f"{path} has {len(array)} images and {labels_path} {labels.shape} labels; expected as many of each, the "
            "five severities one after the other."
        )
    start = (int(severity) - 1) * n
    images = ArrayFile(path, n, lambda: array[start : start + n], first=start)
    return [LabelledArray.of(images, np.asarray(labels[start : start + n]), "test")]


def _mapped(path: Path) -> np.ndarray:
    with reading(path, "an .npy"):
        array = np.load(path, mmap_mode="c", allow_pickle=False)
    if array.dtype.kind not in "iu":
        raise DataError(f"{path} must hold integers; it holds {array.dtype}.")
    integers: np.ndarray = array
    return integers
