"""The images of a dataset before any is decoded: where each lies, what it shows, where it belongs."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol

import numpy as np

from homefold.data.decoding.image import MAX_MEGAPIXELS, Resize
from homefold.data.paths import check_names
from homefold.errors import DataError

if TYPE_CHECKING:  # a process that only decodes shows no progress
    from homefold.runtime.progress import ProgressReporter

__all__ = ["Decodable", "ImageIndex", "ImageSource", "KeyKind", "LoadRequest", "Stamp", "check_domains", "file_stamp"]

KeyKind = Literal["times", "content"]
"""`"times"`: an image whose place, size and times were met before has the bytes it had then; `"content"`: read it."""


@dataclass(frozen=True)
class LoadRequest:
    """How a dataset is wanted: what every reader is given.

    Args:
        root: where its files lie; None for an embedded dataset.
        size: `(height, width)` of every image; None for what the dataset usually has.
        resize: `"squash"` or `"crop"`, as in `decode_image`.
        skip_bad: leave images out that cannot be decoded.
        domains: only these, in this order; None for all.
        seed: decides what is random in the dataset.
        workers: threads that decode; None for as many as there are cores, or decoder processes where they pay.
        reporter: is told the progress and the warnings.
        max_megapixels: larger images count as bad.
        allow_one_class: accept a single class, which can be predicted but not learned.
        use_cache: keep decoded images on disk, and take them from there.
        cache_key: `"times"` trusts places, sizes and times of files met before; `"content"` reads every byte anew.
        domain_from: a pattern that finds the domain in the path of an image (`PathPattern`); empty where the files say.
    """

    root: Path | None = None
    size: tuple[int, int] | None = None
    resize: Resize = "squash"
    skip_bad: bool = False
    domains: tuple[str, ...] | None = None
    seed: int = 0
    workers: int | None = None
    reporter: ProgressReporter | None = None
    max_megapixels: float = MAX_MEGAPIXELS
    allow_one_class: bool = False
    use_cache: bool = True
    cache_key: KeyKind = "times"
    domain_from: str = ""

    @property
    def folder(self) -> Path:
        """The root of a dataset that has files."""
        assert self.root is not None
        return self.root

    @property
    def progress(self) -> ProgressReporter:
        """The reporter, or one that is silent."""
        from homefold.runtime.progress import SilentReporter

        return self.reporter or SilentReporter()


class Stamp(NamedTuple):
    """A text that differs whenever an image's bytes may differ, and when they last changed."""

    text: str
    changed_ns: int


class Decodable(Protocol):
    """An image that has not been decoded yet; every method may be called from several threads at once."""

    @property
    def path(self) -> str:
        """Where it lies, for people."""

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        """`(height, width, 3)` uint8; raises `BadImageError`. The arguments are `decode_image`'s."""


class ImageSource(Decodable, Protocol):
    """One that the cache can tell from others."""

    def stamp(self) -> Stamp:
        """Its place, size and times, without reading it."""

    def digest(self) -> str:
        """A hash of its stored bytes; empty when they cannot be read."""


def file_stamp(path: Path) -> Stamp:
    """The stamp of a whole file: its absolute path, size and times; a missing file has one too.

    The time of the last change of the *entry* (ctime) is in it because tools that restore the time of the content, such
    as `cp -p` and `rsync -t`, cannot restore that one.
    """
    name = os.path.abspath(path)
    try:
        status = os.stat(name)
    except OSError as error:
        return Stamp(f"{name}|{error.errno}", 0)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return Stamp(f"{name}|{status.st_size}|{times[0]}|{times[1]}", max(times))


@dataclass(frozen=True, eq=False)
class ImageIndex:
    """Images found but not decoded; those of one domain stand together.

    Args:
        name, root: what the dataset is called in records, and where it was looked for.
        sources: where each image lies.
        labels, domains: `(n,)` integers that index `class_names` and `domain_names`; the latter never fall.
        class_names, domain_names: one name each.
        splits: the official split of each image (`"train"`, `"val"`, `"test"`); empty when there is none.
        ignored: how many files were passed over because they belong to no class and domain.
        warnings: sentences about what can be used but may not be meant.
    """

    name: str
    root: Path
    sources: Sequence[ImageSource]
    labels: np.ndarray
    domains: np.ndarray
    class_names: tuple[str, ...]
    domain_names: tuple[str, ...]
    splits: tuple[str, ...] = ()
    ignored: int = 0
    warnings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        n = len(self.sources)
        assert self.labels.shape == self.domains.shape == (n,)
        assert not self.splits or len(self.splits) == n
        assert (np.diff(self.domains) >= 0).all()
        check_names("class", self.class_names, self.root)
        check_names("domain", self.domain_names, self.root)

    def __len__(self) -> int:
        return len(self.sources)

    def counts(self) -> np.ndarray:
        """`(domains, classes)`: how many images each cell has."""
        counts = np.zeros((len(self.domain_names), len(self.class_names)), dtype=np.int64)
        np.add.at(counts, (self.domains, self.labels), 1)
        return counts

    def named_counts(self) -> dict[str, dict[str, int]]:
        """`counts` as `{domain: {class: images}}`."""
        rows = [dict(zip(self.class_names, row, strict=True)) for row in self.counts().tolist()]
        return dict(zip(self.domain_names, rows, strict=True))

    def positions_of(self, domain: int) -> range:
        """Where the images of a domain stand."""
        first, last = np.searchsorted(self.domains, [domain, domain + 1])
        return range(int(first), int(last))


def check_domains(wanted: Sequence[str], known: Sequence[str], where: object) -> None:
    """Stop at domains that are named twice or are not among the known ones."""
    if not wanted or len(set(wanted)) < len(wanted):
        raise DataError(f"The domains to load must be at least one, each named once; got {list(wanted)}.")
    for name in wanted:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise DataError(f"There is no domain {name!r} in {where}; it has {', '.join(known)}.{hint}")
