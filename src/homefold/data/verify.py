"""Looking through a whole image folder before anyone trains on it: counts, bad files, duplicates."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from homefold.data.folder import FolderIndex, map_images, scan_folder
from homefold.data.images import MAX_MEGAPIXELS, BadImageError, decode_image
from homefold.errors import DataError
from homefold.progress import ProgressReporter

__all__ = ["DuplicateGroup", "VerificationReport", "verify_folder"]

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
    """What was found in a folder.

    Args:
        root: the folder.
        images: how many images there are, bad ones included.
        counts: images of each class in each domain, `{domain: {class: count}}`.
        bad: `(path, reason)` of the images that cannot be decoded.
        duplicates: groups of images with the same pixels.
        ignored: files passed over because they are hidden or no images.
        errors: sentences on what must be repaired.
        warnings: sentences on what should be looked at.
    """

    root: str
    images: int
    counts: dict[str, dict[str, int]]
    bad: tuple[tuple[str, str], ...]
    duplicates: tuple[DuplicateGroup, ...]
    ignored: int
    errors: tuple[str, ...]
    warnings: tuple[str, ...]

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
        index = scan_folder(root, domains=domains)
    except DataError as error:
        return VerificationReport(str(root), 0, {}, (), (), 0, errors=(str(error),), warnings=())

    def digest(path: Path) -> bytes:
        pixels = decode_image(path, size=None, max_megapixels=max_megapixels)
        return hashlib.blake2b(pixels.data, digest_size=16, salt=_shape_salt(pixels)).digest()

    results = list(map_images(digest, index.paths, description="checking images", workers=workers, reporter=reporter))
    bad = tuple((result.name, result.reason) for result in results if isinstance(result, BadImageError))
    duplicates = _duplicate_groups(index, results)
    return VerificationReport(
        root=str(root),
        images=len(index),
        counts=_named_counts(index),
        bad=bad,
        duplicates=duplicates,
        ignored=index.ignored,
        errors=(*_bad_sentences(bad), *_conflict_sentences(duplicates)),
        warnings=(*index.warnings, *_duplicate_sentences(duplicates)),
    )


def _shape_salt(pixels: np.ndarray) -> bytes:
    """A plain 2×8 image and a plain 4×4 one have the same bytes and are not the same."""
    return pixels.shape[0].to_bytes(8, "little") + pixels.shape[1].to_bytes(8, "little")


def _duplicate_groups(index: FolderIndex, digests: Sequence[bytes | BadImageError]) -> tuple[DuplicateGroup, ...]:
    members = defaultdict(list)
    for i, digest in enumerate(digests):
        if not isinstance(digest, BadImageError):
            members[digest].append(i)
    return tuple(
        DuplicateGroup(
            paths=tuple(str(index.paths[i]) for i in group),
            domains=tuple(index.domain_names[d] for d in np.unique(index.domains[group])),
            classes=tuple(index.class_names[c] for c in np.unique(index.labels[group])),
        )
        for group in members.values()
        if len(group) > 1
    )


def _named_counts(index: FolderIndex) -> dict[str, dict[str, int]]:
    return {
        domain: dict(zip(index.class_names, row, strict=True))
        for domain, row in zip(index.domain_names, index.counts().tolist(), strict=True)
    }


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
