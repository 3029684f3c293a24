"""From an index to a dataset: decode into memory, or take the decoded images from the cache."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.data.decoding import decode_all
from homefold.data.image_cache import CacheUnavailableError, ImageCache, KeyKind
from homefold.data.images import MAX_MEGAPIXELS, Resize
from homefold.data.index import ImageIndex
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter, SilentReporter

__all__ = ["decode_index", "load_index"]


def decode_index(
    index: ImageIndex,
    *,
    size: tuple[int, int],
    resize: Resize = "squash",
    skip_bad: bool = False,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> DomainDataset:
    """Decode every image of an index into memory.

    Args:
        index: what to decode.
        size, resize, skip_bad, workers, reporter, max_megapixels: as in `load_folder`.
    """
    reporter = reporter or SilentReporter()
    _tell_warnings(index, reporter)
    images, kept, skipped = decode_all(
        index.sources,
        size,
        resize=resize,
        skip_bad=skip_bad,
        max_megapixels=max_megapixels,
        workers=workers,
        reporter=reporter,
    )
    return _dataset(index, images, kept, skipped, reporter)


def load_index(
    index: ImageIndex,
    *,
    size: tuple[int, int],
    resize: Resize = "squash",
    skip_bad: bool = False,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
    use_cache: bool = True,
    cache_key: KeyKind = "times",
) -> DomainDataset:
    """Take the decoded images of an index from the cache, after decoding there what it does not have.

    Where the cache cannot be written the images are decoded into memory instead, and that is said.

    Args:
        index: what to load.
        size, resize, skip_bad, workers, reporter, max_megapixels: as in `load_folder`.
        use_cache: neither read nor write the cache when false.
        cache_key: `"times"` trusts places, sizes and times of files met before; `"content"` reads every byte anew.
    """
    reporter = reporter or SilentReporter()
    if use_cache:
        try:
            images, kept, skipped = ImageCache().images(
                index,
                size=size,
                resize=resize,
                skip_bad=skip_bad,
                workers=workers,
                reporter=reporter,
                max_megapixels=max_megapixels,
                cache_key=cache_key,
            )
        except CacheUnavailableError as reason:
            reporter.message(f"The decoded images are not kept for later runs: {reason}")
        else:
            _tell_warnings(index, reporter)
            return _dataset(index, images, kept, skipped, reporter)
    return decode_index(
        index,
        size=size,
        resize=resize,
        skip_bad=skip_bad,
        workers=workers,
        reporter=reporter,
        max_megapixels=max_megapixels,
    )


def _tell_warnings(index: ImageIndex, reporter: ProgressReporter) -> None:
    for warning in index.warnings:
        reporter.message(warning)


def _dataset(
    index: ImageIndex,
    images: np.ndarray,
    kept: np.ndarray,
    skipped: Sequence[tuple[str, str]],
    reporter: ProgressReporter,
) -> DomainDataset:
    labels, domains = index.labels[kept], index.domains[kept]
    if skipped:
        _check_nothing_emptied(index, labels, domains, len(skipped))
        reporter.message(f"Left out {_images(len(skipped), '')} that could not be decoded.")
    return DomainDataset(
        images=images,
        labels=labels,
        domains=domains,
        class_names=index.class_names,
        domain_names=index.domain_names,
        name=index.name,
        paths=tuple(index.sources[i].path for i in kept),
        splits=tuple(index.splits[i] for i in kept) if index.splits else (),
        skipped=tuple(skipped),
    )


def _check_nothing_emptied(index: ImageIndex, labels: np.ndarray, domains: np.ndarray, skipped: int) -> None:
    for what, names, before, after in (
        ("class", index.class_names, index.labels, labels),
        ("domain", index.domain_names, index.domains, domains),
    ):
        emptied = [names[i] for i in np.setdiff1d(before, after)]
        if emptied:
            raise DataError(
                f"Leaving out the {_images(skipped, 'bad ')} in {index.root} leaves no image of "
                f"the {what} {', '.join(emptied[:10])}. Replace the bad images, or remove that {what}'s folder."
            )


def _images(n: int, adjective: str) -> str:
    return f"{n} {adjective}image" if n == 1 else f"{n} {adjective}images"
