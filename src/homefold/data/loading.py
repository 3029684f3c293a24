"""From images that were found to a dataset: decoded into memory, or taken from the cache."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from homefold.data.archives import FileImage
from homefold.data.cache.images import CacheUnavailableError, ImageCache
from homefold.data.dataset import DomainDataset
from homefold.data.decoding.image import MAX_MEGAPIXELS, Resize
from homefold.data.decoding.many import decode_all
from homefold.data.index import ImageIndex, LoadRequest
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.text import counted

__all__ = ["load_images", "load_index"]


def load_images(
    paths: Sequence[str | Path],
    *,
    size: tuple[int, int] = (224, 224),
    resize: Resize = "squash",
    skip_bad: bool = False,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> tuple[np.ndarray, list[Path], list[tuple[str, str]]]:
    """Decode images that need no labels.

    Args:
        paths: image files, as from `find_images`.
        size, resize, skip_bad, workers, reporter, max_megapixels: as in `LoadRequest`.

    Returns:
        The images, `(n, height, width, 3)` uint8; the path of each; `(path, reason)` of those left out.
    """
    files = [Path(path) for path in paths]
    request = LoadRequest(
        resize=resize, skip_bad=skip_bad, workers=workers, reporter=reporter, max_megapixels=max_megapixels
    )
    images, kept, skipped = decode_all([FileImage(file) for file in files], size, request)
    return images, [files[i] for i in kept], skipped


def load_index(index: ImageIndex, size: tuple[int, int], request: LoadRequest) -> DomainDataset:
    """The decoded images of an index, all of `size` `(height, width)`, from the cache unless the request does without.

    Where the cache cannot be written the images are decoded into memory instead, and that is said.
    """
    loaded = None
    if request.use_cache:
        try:
            loaded = ImageCache().images(index, size, request)
        except CacheUnavailableError as reason:
            request.progress.message(f"The decoded images are not kept for later runs: {reason}")
    images, kept, skipped = loaded or decode_all(index.sources, size, request)
    for warning in index.warnings:
        request.progress.message(warning)
    if skipped:
        _check_nothing_emptied(index, kept, len(skipped))
        request.progress.message(f"Left out {counted(len(skipped), 'image')} that could not be decoded.")
    return DomainDataset(
        images=images,
        labels=index.labels[kept],
        domains=index.domains[kept],
        class_names=index.class_names,
        domain_names=index.domain_names,
        name=index.name,
        paths=tuple(index.sources[i].path for i in kept),
        splits=tuple(index.splits[i] for i in kept) if index.splits else (),
        skipped=tuple(skipped),
    )


def _check_nothing_emptied(index: ImageIndex, kept: np.ndarray, skipped: int) -> None:
    for what, names, members in (
        ("class", index.class_names, index.labels),
        ("domain", index.domain_names, index.domains),
    ):
        emptied = [names[i] for i in np.setdiff1d(members, members[kept])]
        if emptied:
            raise DataError(
                f"Leaving out the {counted(skipped, 'bad image')} in {index.root} leaves no image of "
                f"the {what} {', '.join(emptied[:10])}. Replace the bad images, or remove that {what}'s folder."
            )
