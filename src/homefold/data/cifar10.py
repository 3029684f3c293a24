"""CIFAR-10's own images, in whatever form people keep them."""

from __future__ import annotations

import io
import re
import tarfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path, PurePosixPath

import numpy as np

from homefold.data.archives import FileImage, list_folder
from homefold.data.arrays import ArrayFile, LabelledArray, find_file, read_cifar_batch, read_npz
from homefold.data.decoding.image import MAX_MEGAPIXELS, decode_image, is_image_name
from homefold.data.paths import reading
from homefold.errors import DataError

__all__ = ["CIFAR10_CLASSES", "CIFAR10_FORMS", "cifar10_images", "find_cifar_file"]

CIFAR10_CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
CIFAR10_FORMS = (
    "cifar-10-batches-py (homefold data get cifar10 --to DIR), cifar10.npz with x_train, y_train, x_test and y_test, "
    "folders {train,test}/<class>/<image>, or these in cifar10….tar (also .tar.gz, .tar.xz)"
)

_BATCHES = {"train": tuple(f"data_batch_{number}" for number in range(1, 6)), "test": ("test_batch",)}
_TAR = re.compile(r"cifar-?10(?!0).*\.tar(\.\w+)?", re.IGNORECASE)
_PLACES = (".", "*", "*/*")


def find_cifar_file(root: Path, pattern: str) -> Path | None:
    """Not in the folder of CIFAR-100 or CIFAR-100-C, which has files of the same names and often lies beside."""
    return find_file(root, pattern, but_in=lambda folder: "cifar100" in folder.replace("-", "").replace("_", ""))


def cifar10_images(root: Path, split: str) -> list[LabelledArray]:
    """The images of `"train"` or `"test"`; none where they are not there."""
    if packed := find_cifar_file(root, "cifar10.npz"):
        arrays = read_npz(packed, split)
        return [] if arrays is None else [arrays]
    names = _BATCHES[split]
    if first := find_cifar_file(root, names[0]):
        batches = [first.with_name(name) for name in names]
        absent = [str(batch) for batch in batches if not batch.exists()]
        if absent:
            raise DataError(f"CIFAR-10 is incomplete: there is no {', '.join(absent)}.")
        return [read_cifar_batch(batch, split) for batch in batches]
    if tree := _tree(root, split):
        return [tree]
    tar = find_cifar_file(root, "*cifar*10*.tar*")
    return [_read_tar(tar, split)] if tar is not None and _TAR.fullmatch(tar.name) else []


def _tree(root: Path, split: str) -> LabelledArray | None:
    """Folders `{train,test}/<class>` of images, in the order of classes and names."""
    first = find_cifar_file(root, f"{split}/{CIFAR10_CLASSES[0]}")
    if first is None:
        return None
    images: list[FileImage] = []
    labels: list[int] = []
    for label, name in enumerate(CIFAR10_CLASSES):
        if not (folder := first.with_name(name)).is_dir():
            raise DataError(f"CIFAR-10 is incomplete: there is no folder {folder}.")
        found = list_folder(folder)[1]
        images += map(FileImage, found)
        labels += [label] * len(found)
    return LabelledArray(images, np.array(labels, np.int64), split)


def _read_tar(path: Path, split: str) -> LabelledArray:
    """The same in a tar, which is read from its beginning to its end: once for the labels, once for the images."""
    with reading(path, "a tar of CIFAR-10's images"):
        members = {place: i for i, place in enumerate(sorted(place for place, _ in _members(path, split)))}
    if not members:
        raise DataError(
            f"{path} has no images {split}/<class>/<image>, the classes being {', '.join(CIFAR10_CLASSES)}."
        )
    labels = np.array([label for label, _ in members], np.int64)
    return LabelledArray.of(
        ArrayFile(path, len(members), partial(_tar_pixels, path, split, members), f"{split}:"), labels, split
    )


def _members(path: Path, split: str) -> Iterator[tuple[tuple[int, str], bytes | None]]:
    """Label and name of each image of a split."""
    with tarfile.open(path, mode="r|*") as archive:
        for member in archive:
            parts = PurePosixPath(member.name).parts
            if (
                member.isreg()
                and parts[-3:-2] == (split,)
                and parts[-2] in CIFAR10_CLASSES
                and is_image_name(parts[-1])
            ):
                file = archive.extractfile(member)
                yield (CIFAR10_CLASSES.index(parts[-2]), parts[-1]), file.read() if file else None


def _tar_pixels(path: Path, split: str, places: dict[tuple[int, str], int]) -> np.ndarray:
    images = np.zeros((len(places), 32, 32, 3), np.uint8)
    with reading(path, "a tar of CIFAR-10's images"):
        for place, content in _members(path, split):
            name = f"{path}/{split}/{CIFAR10_CLASSES[place[0]]}/{place[1]}"
            images[places[place]] = decode_image(
                io.BytesIO(content or b""), size=(32, 32), resize="squash", max_megapixels=MAX_MEGAPIXELS, name=name
            )
    return images
