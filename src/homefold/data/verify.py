"""Looking through a whole dataset before anyone trains on it: counts, bad files, duplicates."""

from __future__ import annotations

import hashlib
import os
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from homefold.data.archive_folder import index_archive
from homefold.data.archives import is_archive
from homefold.data.decoding import map_images
from homefold.data.folder import index_folder
from homefold.data.images import MAX_MEGAPIXELS, BadImageError
from homefold.data.index import ImageIndex
from homefold.data.paths import given_path
from homefold.data.registry import LoadRequest, dataset_entry
from homefold.data.sources import ImageSource
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter

__all__ = ["DuplicateGroup", "Published", "VerificationReport", "verify_dataset", "verify_folder"]

Published = Mapping[str, Mapping[str, int] | int]
"""How many images there should be: `{domain: {class: count}}`, or `{domain: count}` where no more is known."""

_NAMED_AT_MOST = 5


@dataclass(frozen=True)
class DuplicateGroup:
    """Images that show exactly the same pixels.

    Args:
        paths: the files, sorted as in the folder.
        domains: the names of the domains they lie in, each once.
        classes: the names of the classes they lie in, each once.
    """

    paths: tuple[str, ...]
    domains: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class VerificationReport:
    """What was found in a dataset's files.

    Args:
        root: where they lie.
        images: how many images there are, bad ones included.
        counts: images of each class in each domain, `{domain: {class: count}}`.
        bad: `(path, reason)` of the images that cannot be decoded.
        duplicates: groups of images with the same pixels.
        ignored: files passed over because they are hidden or no images.
        errors: sentences on what must be repaired.
        warnings: sentences on what should be looked at.
        published: how many images each domain should have; empty when nothing is published.
        decoded: whether every image was decoded; otherwise bad images and duplicates are not known.
        by_domain_only: domains of which the published number of images does not say how many each class has.
    """

    root: str
    images: int
    counts: dict[str, dict[str, int]]
    bad: tuple[tuple[str, str], ...]
    duplicates: tuple[DuplicateGroup, ...]
    ignored: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]
    published: dict[str, int] = field(default_factory=dict)
    decoded: bool = True
    by_domain_only: tuple[str, ...] = ()

    @property
    def verdict(self) -> Literal["ok", "warnings", "errors"]:
        """`"errors"` if anything must be repaired, else `"warnings"` if anything should be looked at."""
        if self.errors:
            return "errors"
        return "warnings" if self.warnings else "ok"

    def as_dict(self) -> dict[str, Any]:
        """The report as plain values that JSON can hold."""
        return {"verdict": self.verdict, **asdict(self)}


def verify_folder(
    root: str | Path,
    *,
    domains: Sequence[str] | None = None,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> VerificationReport:
    """Decode every image of `root/domain/class/image` at its own size and report what should not be as it is.

    A folder that is no dataset at all is reported too, not raised.

    Args:
        root: the folder of domains.
        domains: only these; by default all.
        workers: threads that decode; by default as many as there are cores.
        reporter: is told the progress.
        max_megapixels: larger images count as bad.
    """
    try:
        path = given_path(root)
        find = index_archive if is_archive(path) and os.path.isfile(path) else index_folder
        index = find(path, domains=domains)
    except DataError as error:
        return _nothing_found(root, error)
    return _verify(index, None, decode=True, workers=workers, reporter=reporter, max_megapixels=max_megapixels)


def verify_dataset(
    name: str,
    root: str | Path,
    *,
    domains: Sequence[str] | None = None,
    decode: bool = True,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
) -> VerificationReport:
    """Compare a named dataset with what was published of it, and decode every image at its own size.

    Args:
        name: a name of `list_datasets()`.
        root: where its files lie.
        domains: only these; by default all that were published.
        decode: false compares the counts alone.
        workers, reporter, max_megapixels: as in `verify_folder`.
    """
    entry = dataset_entry(name)
    if entry.index is None:
        raise DataError(f"{name} is embedded: it has no files that could be damaged.")
    wanted = None if domains is None else tuple(domains)
    try:
        index = entry.index(LoadRequest(root=given_path(root), domains=wanted))
    except DataError as error:
        return _nothing_found(root, error)
    published = entry.published
    if published is not None and wanted is not None:
        published = {domain: published[domain] for domain in wanted}
    return _verify(index, published, decode=decode, workers=workers, reporter=reporter, max_megapixels=max_megapixels)


def _nothing_found(root: str | Path, error: DataError) -> VerificationReport:
    return VerificationReport(str(root), 0, {}, (), (), 0, errors=(str(error),), warnings=())


def _verify(
    index: ImageIndex,
    published: Published | None,
    *,
    decode: bool,
    workers: int | None,
    reporter: ProgressReporter | None,
    max_megapixels: float,
) -> VerificationReport:
    def digest(source: ImageSource) -> bytes:
        pixels = source.pixels(size=None, resize="squash", max_megapixels=max_megapixels)
        return hashlib.blake2b(pixels.data, digest_size=16, salt=_shape_salt(pixels)).digest()

    results: list[bytes | BadImageError] = []
    if decode:
        found = map_images(digest, index.sources, description="checking images", workers=workers, reporter=reporter)
        try:
            results = list(found)
        except DataError as error:  # a whole file of many images that cannot be read
            return _nothing_found(index.root, error)
    bad = tuple((result.name, result.reason) for result in results if isinstance(result, BadImageError))
    duplicates = _duplicate_groups(index, results)
    differences = _count_sentences(index, published)
    conflicts = _conflict_sentences(duplicates)
    # Twins under two labels that were published so are a flaw of the dataset, not of this copy of it.
    as_published = published is not None and not differences
    return VerificationReport(
        root=str(index.root),
        images=len(index),
        counts=index.named_counts(),
        bad=bad,
        duplicates=duplicates,
        ignored=index.ignored,
        errors=(*differences, *_bad_sentences(bad), *(() if as_published else conflicts)),
        warnings=(*index.warnings, *(conflicts if as_published else ()), *_duplicate_sentences(duplicates)),
        published={domain: _total(counts) for domain, counts in (published or {}).items()},
        decoded=decode,
        by_domain_only=tuple(domain for domain, counts in (published or {}).items() if isinstance(counts, int)),
    )


def _total(counts: Mapping[str, int] | int) -> int:
    return counts if isinstance(counts, int) else sum(counts.values())


def _count_sentences(index: ImageIndex, published: Published | None) -> list[str]:
    """Where the counts differ from the published ones."""
    found = index.named_counts()
    differing = []
    for domain, expected in (published or {}).items():
        own = found.get(domain, {})
        if isinstance(expected, int):
            if sum(own.values()) != expected:
                differing.append(f"{domain} has {sum(own.values())} images, published are {expected}")
            continue
        differing += [
            f"{domain} has {own.get(name, 0)} images of {name}, published are {count}"
            for name, count in expected.items()
            if own.get(name, 0) != count
        ]
    if not differing:
        return []
    return [f"This is not {index.name} as it was published: {_some(differing)}. Fetch what is missing anew."]


def _shape_salt(pixels: np.ndarray) -> bytes:
    """A plain 2×8 image and a plain 4×4 one have the same bytes and are not the same."""
    return pixels.shape[0].to_bytes(8, "little") + pixels.shape[1].to_bytes(8, "little")


def _duplicate_groups(index: ImageIndex, digests: Sequence[bytes | BadImageError]) -> tuple[DuplicateGroup, ...]:
    members = defaultdict(list)
    for i, digest in enumerate(digests):
        if not isinstance(digest, BadImageError):
            members[digest].append(i)
    return tuple(
        DuplicateGroup(
            paths=tuple(index.sources[i].path for i in group),
            domains=tuple(index.domain_names[d] for d in np.unique(index.domains[group])),
            classes=tuple(index.class_names[c] for c in np.unique(index.labels[group])),
        )
        for group in members.values()
        if len(group) > 1
    )


def _bad_sentences(bad: Sequence[tuple[str, str]]) -> list[str]:
    if not bad:
        return []
    listed = _some([f"{path} {reason}" for path, reason in bad])
    return [f"{_images(len(bad))} cannot be decoded: {listed}. Replace or remove, or fit with --skip-bad."]


def _conflict_sentences(duplicates: Sequence[DuplicateGroup]) -> list[str]:
    conflicts = [group for group in duplicates if len(group.classes) > 1]
    if not conflicts:
        return []
    return [
        f"{_images(len(conflicts))} under more than one class: {_listed(conflicts)}. "
        "Keep each under the one class it shows."
    ]


def _duplicate_sentences(duplicates: Sequence[DuplicateGroup]) -> list[str]:
    across = [group for group in duplicates if len(group.domains) > 1]
    within = [group for group in duplicates if len(group.domains) == 1 and len(group.classes) == 1]
    sentences = []
    if across:
        sentences.append(
            f"{_images(len(across))} in more than one domain: {_listed(across)}. That is leakage: "
            "a model tested on one of these domains has seen the image in another. Keep each in one domain."
        )
    if within:
        sentences.append(
            f"{_images(len(within))} more than once in the same domain and class: {_listed(within)}. "
            "A copy can be held out while the other is trained on; keep one."
        )
    return sentences


def _listed(groups: Sequence[DuplicateGroup]) -> str:
    return _some([" = ".join(group.paths) for group in groups])


def _some(texts: Sequence[str]) -> str:
    rest = len(texts) - _NAMED_AT_MOST
    return "; ".join(texts[:_NAMED_AT_MOST]) + (f"; and {rest} more" if rest > 0 else "")


def _images(n: int) -> str:
    return "1 image" if n == 1 else f"{n} images"
