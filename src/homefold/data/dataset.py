"""Decoded images with a label and a domain each: what every stage is given, and what identifies parts of it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from homefold.data.paths import check_names
from homefold.errors import DataError

__all__ = ["DatasetKeys", "DomainDataset"]


@dataclass(frozen=True, eq=False)
class DomainDataset:
    """Images of several domains, all of one size, with labels that mean the same in each.

    Args:
        images: `(n, height, width, 3)` uint8; may be a memory map.
        labels, domains: `(n,)` integers that index `class_names` and `domain_names`.
        class_names, domain_names: one name each.
        name: what the collection is called in records.
        paths: where each image came from, for messages and galleries; empty when it was made in memory.
        splits: optional official split of each image (`"train"`, `"val"`, `"test"`); empty when there is none.
        skipped: `(path, reason)` of the images left out with the user's consent.
    """

    images: np.ndarray
    labels: np.ndarray
    domains: np.ndarray
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    name: str = "images"
    paths: tuple[str, ...] = ()
    splits: tuple[str, ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        n = len(self.images)
        if self.images.ndim != 4 or self.images.shape[-1] != 3 or self.images.dtype != np.uint8:
            raise DataError(
                f"images must be uint8 of shape (n, height, width, 3); got {self.images.dtype} {self.images.shape}."
            )
        object.__setattr__(self, "labels", np.asarray(self.labels, dtype=np.int64))
        object.__setattr__(self, "domains", np.asarray(self.domains, dtype=np.int64))
        for what, values, names in (
            ("labels", self.labels, self.class_names),
            ("domains", self.domains, self.domain_names),
        ):
            if values.shape != (n,):
                raise DataError(f"{what} must be one integer for each of the {n} images; got shape {values.shape}.")
            if n and not (values.min() >= 0 and values.max() < len(names)):
                raise DataError(
                    f"{what} run from {values.min()} to {values.max()}, but there are {len(names)} names ({names})."
                )
        check_names("class", self.class_names, self.name)
        check_names("domain", self.domain_names, self.name)
        for what, texts in (("paths", self.paths), ("splits", self.splits)):
            if texts and len(texts) != n:
                raise DataError(f"{what} must be empty or have one entry for each of the {n} images; got {len(texts)}.")

    def __len__(self) -> int:
        return len(self.images)

    @property
    def image_size(self) -> tuple[int, int]:
        """`(height, width)` of every image."""
        return int(self.images.shape[1]), int(self.images.shape[2])

    def subset(self, indices: np.ndarray | Sequence[int]) -> DomainDataset:
        """The images at `indices`, in that order, with all class and domain names kept."""
        indices = np.asarray(indices, dtype=np.int64)
        return replace(
            self,
            images=self.images[indices],
            labels=self.labels[indices],
            domains=self.domains[indices],
            paths=tuple(self.paths[i] for i in indices) if self.paths else (),
            splits=tuple(self.splits[i] for i in indices) if self.splits else (),
        )

    def domain_index(self, name: str) -> int:
        """The index of the domain called `name`."""
        if name not in self.domain_names:
            raise DataError(f"there is no domain {name!r} in {self.name}; it has {', '.join(self.domain_names)}.")
        return self.domain_names.index(name)

    def only(self, *names: str) -> DomainDataset:
        """The images of the named domains; `domain_names` shrinks to them, in the order given."""
        kept = [self.domain_index(name) for name in names]
        subset = self.subset(np.flatnonzero(np.isin(self.domains, kept)))
        renumber = np.full(len(self.domain_names), -1)
        renumber[kept] = np.arange(len(kept))
        return replace(subset, domains=renumber[subset.domains], domain_names=tuple(names))

    def without(self, *names: str) -> DomainDataset:
        """Every domain but the named ones: what a model may train on when they are the target."""
        for name in names:
            self.domain_index(name)
        return self.only(*(name for name in self.domain_names if name not in names))

    def fingerprint(self) -> str:
        """A hash of pixels, labels, domains, splits and names: tells whether a resumed run sees the same data."""
        return DatasetKeys(self).of_labelled(np.arange(len(self)))


class DatasetKeys:
    """Identifies any part of a dataset by its content; the pixels are read once."""

    def __init__(self, dataset: DomainDataset) -> None:
        self._dataset = dataset
        self._images = [
            hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).digest() for image in dataset.images
        ]
        self._known: dict[tuple[str, bytes], str] = {}

    def of_images(self, indices: np.ndarray) -> str:
        """The key of the pixels alone: what an answer for them depends on."""
        return self._once("images", indices, self._of_images)

    def of_labelled(self, indices: np.ndarray) -> str:
        """The key of pixels with labels, domains, official splits and names: what a training depends on."""
        return self._once("labelled", indices, self._of_labelled)

    def _once(self, what: str, indices: np.ndarray, make: Callable[[np.ndarray], str]) -> str:
        place = (what, hashlib.sha256(np.ascontiguousarray(indices, dtype=np.int64).data).digest())
        if place not in self._known:
            self._known[place] = make(indices)
        return self._known[place]

    def _of_images(self, indices: np.ndarray) -> str:
        hasher = hashlib.sha256(repr(self._dataset.image_size).encode())
        for index in indices.tolist():
            hasher.update(self._images[index])
        return hasher.hexdigest()[:24]

    def _of_labelled(self, indices: np.ndarray) -> str:
        from homefold.store.files import digest  # imports torch

        data = self._dataset
        names = [data.domain_names[i] for i in data.domains[indices]]
        splits = [data.splits[i] for i in indices] if data.splits else []
        return digest([self.of_images(indices), data.labels[indices].tolist(), names, splits, list(data.class_names)])
