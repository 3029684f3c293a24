"""The source images that others are compared with: the few that a model keeps, or all where they are given."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.stages.sources import KeptSources

__all__ = ["NearestImage", "SourceImages", "digest_of"]

_QUERIES_AT_ONCE = 1024


def digest_of(image: np.ndarray) -> bytes:
    """Tells apart images `(h, w, 3)` that differ in a pixel."""
    return hashlib.blake2b(np.ascontiguousarray(image).data, digest_size=16).digest()


@dataclass(frozen=True)
class NearestImage:
    """A source image near another.

    Args:
        row: its place among the images of the source domains, in the order in which they were given.
        label, domain: its class and its domain by name.
        cosine: of the two features.
        path: its file, where the source images are at hand and come from files.
    """

    row: int
    label: str
    domain: str
    cosine: float
    path: str = ""

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON; without a path where there is none."""
        return {name: value for name, value in vars(self).items() if value or name != "path"}

    def __str__(self) -> str:
        return f"{self.label} of {self.domain}, {self.path or f'row {self.row}'} ({self.cosine:.3f})"


@dataclass(frozen=True, eq=False)
class SourceImages:
    """Prepared features `(k, d)` of source images with what is known of each.

    Args:
        features: `(k, d)`.
        labels, domains: `(k,)` names.
        rows: `(k,)` places among the images of the source domains.
        paths: a file each; empty where there are none.
        images: k of `(h, w, 3)` uint8; None where only what the model keeps is at hand.
    """

    features: np.ndarray
    labels: np.ndarray
    domains: np.ndarray
    rows: np.ndarray
    paths: tuple[str, ...] = ()
    images: Sequence[np.ndarray] | np.ndarray | None = None
    _unit: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unit", _directions(self.features))

    def __len__(self) -> int:
        return len(self.features)

    @cached_property
    def by_digest(self) -> dict[bytes, int]:
        """The place of each image; all pixels are read once."""
        return {} if self.images is None else {digest_of(image): place for place, image in enumerate(self.images)}

    @staticmethod
    def of_kept(kept: KeptSources, classes: Sequence[str], domains: Sequence[str]) -> SourceImages:
        """Those training images that a model keeps."""
        names = (np.asarray(each, dtype=object) for each in (classes, domains))
        labels, places = (given[index] for given, index in zip(names, (kept.labels, kept.domains), strict=True))
        return SourceImages(kept.features, labels, places, kept.rows)

    @staticmethod
    def of_dataset(dataset: DomainDataset, features: np.ndarray) -> SourceImages:
        """All images of a dataset."""
        return SourceImages(
            features,
            np.asarray(dataset.class_names, dtype=object)[dataset.labels],
            np.asarray(dataset.domain_names, dtype=object)[dataset.domains],
            np.arange(len(dataset)),
            dataset.paths,
            dataset.images,
        )

    def nearest(self, features: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Places `(n, count)` of the highest cosines to `features: (n, d)`, and these; of equal ones the first."""
        count = min(count, len(self))
        places, cosines = [], []
        for start in range(0, len(features), _QUERIES_AT_ONCE):
            found = _directions(features[start : start + _QUERIES_AT_ONCE]) @ self._unit.T
            order = np.argsort(-found, axis=1, kind="stable")[:, :count]
            places.append(order)
            cosines.append(np.take_along_axis(found, order, axis=1))
        return np.concatenate(places), np.concatenate(cosines)

    def described(self, places: np.ndarray, cosines: np.ndarray) -> tuple[NearestImage, ...]:
        """The images at `places: (count,)`."""
        return tuple(
            NearestImage(
                int(self.rows[place]),
                str(self.labels[place]),
                str(self.domains[place]),
                float(cosine),
                self.paths[place] if self.paths else "",
            )
            for place, cosine in zip(places.tolist(), cosines.tolist(), strict=True)
        )


def _directions(features: np.ndarray) -> np.ndarray:
    """Rows of unit length in double precision, so that equal features have a cosine of 1."""
    rows = features.astype(np.float64)
    found: np.ndarray = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return found
