"""What identifies any part of a dataset, so that a stage or a run is found again only if its data did not change."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.store.identity import digest

__all__ = ["DatasetKeys"]


class DatasetKeys:
    """Identifies any part of a dataset by its content; the pixels are read once.

    Args:
        dataset: whose parts are to be identified.
    """

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
        data = self._dataset
        names = [data.domain_names[i] for i in data.domains[indices]]
        splits = [data.splits[i] for i in indices] if data.splits else []
        return digest([self.of_images(indices), data.labels[indices].tolist(), names, splits, list(data.class_names)])
