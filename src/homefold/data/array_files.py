"""Images and labels in the files that MNIST, USPS, SVHN and CIFAR-10 are given out in."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from homefold.data.index import ImageIndex
from homefold.data.paths import reading
from homefold.data.restricted_pickle import read_array_pickle
from homefold.data.sources import ArrayImages, ImageSource
from homefold.errors import DataError

__all__ = ["LabelledArray", "index_arrays", "read_cifar_batch", "read_idx", "read_npz", "read_svhn", "read_usps"]

_IDX_BYTES = 0x08


@dataclass(frozen=True, eq=False)
class LabelledArray:
    """The images of one file, read when their pixels are wanted, and their labels.

    Args:
        images: `n` images.
        labels: `(n,)` integers.
        split: `"train"`, `"val"` or `"test"`.
    """

    images: Sequence[ImageSource]
    labels: np.ndarray
    split: str


def index_arrays(
    name: str,
    root: Path,
    domains: dict[str, list[LabelledArray]],
    class_names: tuple[str, ...],
    warnings: tuple[str, ...] = (),
) -> ImageIndex:
    """An index of arrays, the domains in the order given; labels are checked against the class names."""
    for parts in domains.values():
        for part in parts:
            _check_labels(part, class_names)
    arrays = [(d, part) for d, parts in enumerate(domains.values()) for part in parts]
    return ImageIndex(
        name=name,
        root=root,
        sources=[source for _, part in arrays for source in part.images],
        labels=np.concatenate([part.labels for _, part in arrays]).astype(np.int64),
        domains=np.repeat([d for d, _ in arrays], [len(part.labels) for _, part in arrays]).astype(np.int64),
        class_names=class_names,
        domain_names=tuple(domains),
        splits=tuple(part.split for _, part in arrays for _ in range(len(part.labels))),
        warnings=warnings,
    )


def _check_labels(part: LabelledArray, class_names: tuple[str, ...]) -> None:
    where = part.images[0].path if len(part.images) else "an empty file"
    labels = part.labels
    if labels.shape != (len(part.images),):
        raise DataError(f"{where} and what follows are {len(part.images)} images with labels of shape {labels.shape}.")
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(class_names)):
        raise DataError(
            f"The labels of {where} and what follows run from {labels.min()} to {labels.max()}; there are "
            f"{len(class_names)} classes, so they must run from 0 to {len(class_names) - 1}."
        )


def read_npz(path: Path, split: str, key: str | None = None) -> LabelledArray | None:
    """Arrays `x_<split>` and `y_<split>` of an `.npz`; None when it has none of that split."""
    key = key or split
    labels = _npz_array(path, f"y_{key}", missing_ok=True)
    if labels is None:
        return None
    read = partial(_npz_images, path, f"x_{key}")
    return LabelledArray(ArrayImages(path, len(labels), read, key=f"x_{key}:"), labels.astype(np.int64), split)


def _npz_images(path: Path, name: str) -> np.ndarray:
    array = _npz_array(path, name, missing_ok=False)
    assert array is not None
    return array


def _npz_array(path: Path, name: str, *, missing_ok: bool) -> np.ndarray | None:
    with reading(path, "an .npz", "it is damaged or holds objects"), np.load(path, allow_pickle=False) as archive:
        if name not in archive.files:
            if missing_ok:
                return None
            raise DataError(f"{path} has no array {name}; it has {', '.join(archive.files)}.")
        return np.asarray(archive[name])


def read_idx(images: Path, labels: Path, split: str) -> LabelledArray:
    """MNIST's idx files, gzipped or not."""
    of_labels = _idx_array(labels)
    read = partial(_idx_array, images)
    return LabelledArray(ArrayImages(images, len(of_labels), read), of_labels.astype(np.int64), split)


def _idx_array(path: Path) -> np.ndarray:
    with reading(path, "an idx file of bytes"):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        zero, kind, dimensions = int.from_bytes(content[:2], "big"), content[2], content[3]
        shape = tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
        if zero or kind != _IDX_BYTES or len(content) != 4 + 4 * dimensions + int(np.prod(shape)):
            raise ValueError("its header and its length do not agree")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_usps(path: Path, split: str) -> LabelledArray:
    """USPS as LIBSVM gives it out: bzip2, lines `label 1:value …` with labels from 1 and values from -1 to 1."""
    images, labels = _usps_arrays(path)
    return LabelledArray(ArrayImages(path, len(labels), lambda: images), labels, split)


def _usps_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    with reading(path, "USPS in LIBSVM's form"):
        lines = bz2.decompress(path.read_bytes()).decode().splitlines()
        labels = np.array([int(line.split(maxsplit=1)[0]) for line in lines]) - 1
        values = np.full((len(lines), 256), -1.0)
        for row, line in enumerate(lines):
            for pair in line.split()[1:]:
                place, value = pair.split(":")
                values[row, int(place) - 1] = float(value)
    images = np.rint((values + 1) * 127.5).clip(0, 255).astype(np.uint8).reshape(-1, 16, 16)
    return images, labels.astype(np.int64)


def read_svhn(path: Path, split: str) -> LabelledArray:
    """SVHN's cropped digits in a `.mat`, where the label 10 means 0."""
    from scipy.io import loadmat  # type: ignore[import-untyped]

    def arrays(*names: str) -> list[np.ndarray]:
        with reading(path, "SVHN's .mat"):
            found = loadmat(path, variable_names=list(names))
            return [found[name] for name in names]

    labels = arrays("y")[0].astype(np.int64).reshape(-1) % 10
    read: Callable[[], np.ndarray] = lambda: np.ascontiguousarray(arrays("X")[0].transpose(3, 0, 1, 2))  # noqa: E731
    return LabelledArray(ArrayImages(path, len(labels), read), labels, split)


def read_cifar_batch(path: Path, split: str) -> LabelledArray:
    """One batch of CIFAR-10's Python version, read by an unpickler that knows data alone."""
    content = read_array_pickle(path)
    data, labels = content.get("data"), content.get("labels")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3072 or not isinstance(labels, list):
        raise DataError(
            f"{path} is not a batch of CIFAR-10: it must hold data of shape (n, 3072) and a list of labels."
        )
    images = np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    with reading(path, "a batch of CIFAR-10"):
        numbers = np.array(labels, dtype=np.int64)
    return LabelledArray(ArrayImages(path, len(images), lambda: images), numbers, split)
