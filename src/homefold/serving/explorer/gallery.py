"""Labelled images by row number: nobody who asks for one learns where its file lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from homefold.data import DomainDataset
from homefold.data.picture import picture_file, picture_format
from homefold.errors import DataError
from homefold.runtime.text import some
from homefold.stages.source_images import SourceImages

__all__ = ["Gallery"]


class _Rows(Sequence[np.ndarray]):
    """Some of the images, read when they are asked for."""

    def __init__(self, images: np.ndarray, rows: np.ndarray) -> None:
        self._images, self._rows = images, rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: Any) -> Any:
        return np.asarray(self._images[self._rows[place]])


@dataclass(frozen=True, eq=False)
class Gallery:
    """The images that people may look at.

    Args:
        dataset: images of the model's size.
        classes: the model's, then those that only the images have.
        truth: `(n,)` index into `classes`.
        is_source: `(n,)` whether an image is of a domain that the model learned from.
        are_thumbnails: whether they are what the model keeps itself.
    """

    dataset: DomainDataset
    classes: tuple[str, ...]
    truth: np.ndarray
    is_source: np.ndarray
    are_thumbnails: bool = False

    @staticmethod
    def of(
        dataset: DomainDataset, classes: Sequence[str], sources: Sequence[str], *, are_thumbnails: bool = False
    ) -> Gallery:
        """The images beside a model with these classes and source domains; a sentence where they do not fit it."""
        if not set(dataset.class_names) & set(classes):
            raise DataError(
                f"the images of {dataset.name} have none of the model's classes: they have "
                f"{some(list(dataset.class_names))}, the model knows {some(list(classes))}."
            )
        known = [name in sources for name in dataset.domain_names]
        is_source = np.asarray(known, dtype=bool)[dataset.domains]
        if not is_source.any():
            raise DataError(
                f"the images of {dataset.name} are of {some(list(dataset.domain_names))}, and the model learned from "
                f"{some(list(sources))}: give the folder that it was fitted on; it may hold further domains."
            )
        names = (*classes, *(name for name in dataset.class_names if name not in classes))
        index = np.asarray([names.index(name) for name in dataset.class_names])
        return Gallery(dataset, names, index[dataset.labels], is_source, are_thumbnails)

    def __len__(self) -> int:
        return len(self.dataset)

    def source_images(self, rows: np.ndarray, features: np.ndarray) -> SourceImages:
        """The source images at `rows: (m,)`, with their features `(m, d)` and without their paths."""
        classes, domains = np.asarray(self.classes, object), np.asarray(self.dataset.domain_names, object)
        return SourceImages(
            features,
            classes[self.truth[rows]],
            domains[self.dataset.domains[rows]],
            rows,
            images=_Rows(self.dataset.images, rows),
        )

    def picture(self, row: int) -> tuple[bytes, str]:
        """An image as the model sees it, as a file, and its media type."""
        pixels = np.asarray(self.dataset.images[row])
        return picture_file(pixels), f"image/{picture_format(max(pixels.shape[:2])).lower()}"
