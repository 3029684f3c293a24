"""Looking through a whole dataset before anyone trains on it: counts, bad files, duplicates."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from homefold.data.decoding.image import MAX_MEGAPIXELS, BadImageError
from homefold.data.decoding.many import map_images
from homefold.data.index import ImageIndex, ImageSource, LoadRequest
from homefold.data.paths import given_path
from homefold.data.registry import dataset_entry
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.text import counted, some

__all__ = ["DuplicateGroup", "Published", "VerificationReport", "verify_dataset"]

Published = Mapping[str, Mapping[str, int] | int]
"""How many images there should be: `{domain: {class: count}}`, or `{domain: count}` where no more is known."""


@dataclass(frozen=True)
class DuplicateGroup:
    """Images that show exactly the same pixels."""

    paths: tuple[str, ...]
    domains: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class VerificationReport:
    """What was found in a dataset's files.

    Args:
        root, images: where they lie, and how many images there are, bad ones included.
        counts: images of each class in each domain, `{domain: {class: count}}`.
        bad: `(path, reason)` of the images that cannot be decoded.
        duplicates: groups of images with the same pixels.
        ignored: files passed over because they are hidden or no images.
        errors, warnings: sentences on what must be repaired, and on what should be looked at.
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


def verify_dataset(
    name: str,
    root: str | Path,
    *,
    domains: Sequence[str] | None = None,
    decode: bool = True,
    workers: int | None = None,
    reporter: ProgressReporter | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
    domain_from: str = "",
) -> VerificationReport:
    """Compare a dataset with what was published of it, and decode every image at its own size.

    Files that make no dataset at all are reported too, not raised.

    Args:
        name: a name of `list_datasets()`; `"folder"` for any folder of domains.
        root: where its files lie.
        domains: only these; by default all that were published.
        decode: false compares the counts alone.
        workers, reporter, max_megapixels, domain_from: as in `LoadRequest`.
    """
    entry = dataset_entry(name)
    if entry.index is None:
        raise DataError(f"{name} is embedded: it has no files that could be damaged.")
    wanted = None if domains is None else tuple(domains)
    try:
        request = LoadRequest(
            given_path(root),
            domains=wanted,
            skip_bad=True,  # to report every image that is missing, not the first ones
            workers=workers,
            reporter=reporter,
            max_megapixels=max_megapixels,
            domain_from=domain_from,
        )
        index = entry.index(request)
        published = entry.published or {}
        totals = {domain: sum(own.values()) for domain, own in index.named_counts().items()}
        if entry.earlier and totals.items() <= entry.earlier.items():
            published = entry.earlier
        if published and wanted is not None:
            published = {domain: published[domain] for domain in wanted}
        return _verify(index, published, decode, request)
    except DataError as error:  # also a whole file of many images that cannot be read
        return VerificationReport(str(root), 0, {}, (), (), 0, errors=(str(error),), warnings=())


def _verify(index: ImageIndex, published: Published, decode: bool, request: LoadRequest) -> VerificationReport:
    def digest(source: ImageSource) -> bytes:
        pixels = source.pixels(size=None, resize="squash", max_megapixels=request.max_megapixels)
        # The shape too: a plain 2×8 image and a plain 4×4 one have the same bytes and are not the same.
        shape = b"".join(length.to_bytes(8, "little") for length in pixels.shape[:2])
        return hashlib.blake2b(pixels.data, digest_size=16, salt=shape).digest()

    results = list(map_images(digest, index.sources, "checking images", request)) if decode else []
    bad = tuple((result.name, result.reason) for result in results if isinstance(result, BadImageError))
    duplicates = _duplicate_groups(index, results)
    differences = _count_sentences(index, published)
    conflicts, copies = _duplicate_sentences(duplicates)
    bad_ones = [f"{path} {reason}" for path, reason in bad]
    unreadable = _told(bad_ones, "cannot be decoded: {}. Replace or remove, or fit with skip_bad.")
    # Twins under two labels that were published so are a flaw of the dataset, not of this copy of it.
    as_published = published and not differences
    return VerificationReport(
        root=str(index.root),
        images=len(index),
        counts=index.named_counts(),
        bad=bad,
        duplicates=duplicates,
        ignored=index.ignored,
        errors=(*differences, *unreadable, *(() if as_published else conflicts)),
        warnings=(*index.warnings, *(conflicts if as_published else ()), *copies),
        published={domain: n if isinstance(n, int) else sum(n.values()) for domain, n in published.items()},
        decoded=decode,
        by_domain_only=tuple(domain for domain, n in published.items() if isinstance(n, int)),
    )


def _count_sentences(index: ImageIndex, published: Published) -> list[str]:
    """Where the counts differ from the published ones."""
    found, differing = index.named_counts(), list[str]()
    for domain, expected in published.items():
        own = found.get(domain, {})
        there = (
            [("images", sum(own.values()), expected)]
            if isinstance(expected, int)
            else [(f"images of {name}", own.get(name, 0), count) for name, count in expected.items()]
        )
        differing += [f"{domain} has {n} {what}, published are {count}" for what, n, count in there if n != count]
    listed = some(differing, separator="; ")
    return [f"This is not {index.name} as it was published: {listed}. Fetch what is missing anew."] if listed else []


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


def _told(images: Sequence[str], what: str) -> list[str]:
    """A sentence on some of the images, where there are any; `{}` stands for them."""
    return [f"{counted(len(images), 'image')} {what.format(some(images, separator='; '))}"] if images else []


def _duplicate_sentences(duplicates: Sequence[DuplicateGroup]) -> tuple[list[str], list[str]]:
    """On those under more than one class, and on the others."""
    listed = [(" = ".join(group.paths), len(group.domains), len(group.classes)) for group in duplicates]
    conflicts = [paths for paths, _, classes in listed if classes > 1]
    across = [paths for paths, domains, _ in listed if domains > 1]
    within = [paths for paths, domains, classes in listed if domains == classes == 1]
    return _told(conflicts, "under more than one class: {}. Keep each under the one class it shows."), [
        *_told(
            across,
            "in more than one domain: {}. That is leakage: a model tested on one of these domains has seen the image "
            "in another. Keep each in one domain.",
        ),
        *_told(
            within,
            "more than once in the same domain and class: {}. A copy can be held out while the other is trained on; "
            "keep one.",
        ),
    ]
