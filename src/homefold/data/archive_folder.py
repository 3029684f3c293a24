"""A folder `domain/class/image` that was packed into one tar or zip, read without unpacking."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from homefold.data.archives import archive_images
from homefold.data.index import ImageIndex
from homefold.errors import DataError

__all__ = ["index_archive"]


def index_archive(
    path: Path, *, domains: Sequence[str] | None = None, allow_one_class: bool = False, name: str | None = None
) -> ImageIndex:
    """Find the images of `domain/class/…/image` in an archive; one folder around all domains is passed over.

    Args:
        path: the tar or zip.
        domains: only these, in this order; by default all, sorted. Class names come from these alone.
        allow_one_class: accept a single class, which can be predicted but not learned.
        name: what the dataset is called in records; by default the archive's.
    """
    members = [(tuple(part for part in member.parts if part != "."), image) for member, image in archive_images(path)]
    if members and all(len(parts) >= 4 for parts, _ in members) and len({parts[0] for parts, _ in members}) == 1:
        members = [(parts[1:], image) for parts, image in members]
    expected = "Expected <domain>/<class>/<image> in it."
    if not members:
        raise DataError(f"There are no images in {path}. {expected}")
    loose = ["/".join(parts) for parts, _ in members if len(parts) < 3]
    if loose:
        raise DataError(f"{len(loose)} images in {path} lie in no domain and class, such as {loose[0]}. {expected}")
    there = sorted({parts[0] for parts, _ in members})
    chosen = tuple(there if domains is None else domains)
    for domain in chosen:
        if domain not in there:
            raise DataError(f"There is no domain {domain!r} in {path}; it has {', '.join(there)}.")
    classes = sorted({parts[1] for parts, _ in members if parts[0] in chosen})
    if len(classes) == 1 and not allow_one_class:
        raise DataError(f"{path} has one class only ({classes[0]}), so there is nothing to tell apart.")
    placed = [(chosen.index(parts[0]), classes.index(parts[1]), parts, i) for parts, i in members if parts[0] in chosen]
    ordered = sorted(placed, key=lambda place: place[:3])
    return ImageIndex(
        name=name or path.stem,
        root=path,
        sources=[image for *_, image in ordered],
        labels=np.array([label for _, label, *_ in ordered], dtype=np.int64),
        domains=np.array([domain for domain, *_ in ordered], dtype=np.int64),
        class_names=tuple(classes),
        domain_names=chosen,
    )
