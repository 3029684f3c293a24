"""The datasets that homefold knows by name, and how each is loaded."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.data.decoding.image import MAX_MEGAPIXELS, Resize
from homefold.data.index import ImageIndex, KeyKind, LoadRequest
from homefold.data.paths import given_path
from homefold.errors import DataError
from homefold.runtime.registry import Registry
from homefold.runtime.text import counted

if TYPE_CHECKING:
    from homefold.runtime.progress import ProgressReporter

__all__ = [
    "DatasetEntry",
    "count_images",
    "dataset_entry",
    "domain_names",
    "list_datasets",
    "load_dataset",
    "register_dataset",
    "split_name",
]

_Reader = TypeVar("_Reader", bound=Callable[[LoadRequest], Any])


@dataclass(frozen=True)
class DatasetEntry:
    """All there is to know of one named dataset.

    Args:
        name, description: what people type, and one line on what it shows.
        source, licence: where people get it, and on what terms.
        layout: how its files must lie.
        domains, classes: their names; empty when the files decide.
        split_rule: where its official splits come from; empty when there are none.
        published: how many images it should have, `{domain: {class: count}}` or `{domain: count}`; None when unknown.
        usual_size: `(height, width)` where none is asked for.
        downloads: torchvision's names for its parts, where torchvision can download them.
        after_download: what to do next.
        embedded: whether it needs no files.
        index: finds its images without decoding any; None where there are no files.
        load: makes the dataset where there are no files.
    """

    name: str
    description: str
    source: str
    licence: str
    layout: str
    domains: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    split_rule: str = ""
    published: Mapping[str, Mapping[str, int] | int] | None = None
    usual_size: tuple[int, int] = (224, 224)
    downloads: tuple[str, ...] = ()
    after_download: str = ""
    embedded: bool = False
    index: Callable[[LoadRequest], ImageIndex] | None = None
    load: Callable[[LoadRequest], DomainDataset] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain values that JSON can hold, without its functions."""
        return {key: value for key, value in asdict(self).items() if key not in ("load", "index")}


_entries: Registry[DatasetEntry] = Registry(
    "dataset", "homefold.data.datasets", order=lambda entry: (not entry.embedded, entry.name), error=DataError
)


def register_dataset(entry: DatasetEntry) -> Callable[[_Reader], _Reader]:
    """Make a dataset known by its name; a name can be taken once.

    The decorated reader finds the images of the domains asked for, and of no others; of an embedded dataset it makes
    the dataset itself.
    """

    def keep(reader: _Reader) -> _Reader:
        known = replace(entry, load=reader) if entry.embedded else replace(entry, index=reader)
        _entries.add(entry.name, known, reader)
        return reader

    return keep


def list_datasets() -> tuple[DatasetEntry, ...]:
    """Every known dataset, the embedded ones first, then by name."""
    return _entries.values()


def dataset_entry(name: str) -> DatasetEntry:
    """The dataset called `name`; an unknown name gets a sentence with those that exist.

    Of `name:PATH` the domains are those that lie at PATH.
    """
    name, root = split_name(name)
    entry = _entries[name]
    return entry if root is None else replace(entry, domains=_domains_at(entry, root))


def split_name(text: str) -> tuple[str, Path | None]:
    """The name and the path of `name:PATH`; anything else is given back whole, without a path.

    >>> split_name("digits-mini")
    ('digits-mini', None)
    """
    name, colon, path = text.partition(":")
    if colon and path and name in _entries:
        return name, given_path(path)
    return text, None


def load_dataset(
    name_or_path: str | Path,
    *,
    root: str | Path | None = None,
    size: tuple[int, int] | None = None,
    resize: Resize = "squash",
    skip_bad: bool = False,
    domains: Sequence[str] | None = None,
    reporter: ProgressReporter | None = None,
    seed: int = 0,
    workers: int | None = None,
    max_megapixels: float = MAX_MEGAPIXELS,
    allow_one_class: bool = False,
    use_cache: bool = True,
    cache_key: KeyKind = "times",
) -> DomainDataset:
    """Load a dataset by its name, or a folder `root/domain/class/image` by its path.

    A known name wins over a folder of that name in the current directory; write `./name` for the folder. Domains
    that are not asked for are not decoded.

    Args:
        name_or_path: a name of `list_datasets()`, `name:PATH` with where its files lie, or a folder.
        root: where the files of a named dataset lie, when the name does not say it.
        size, resize, skip_bad, domains, reporter, seed, workers, max_megapixels, allow_one_class, use_cache, cache_key:
            as in `LoadRequest`.
    """
    entry, at = _entry_of(name_or_path, root)
    request = LoadRequest(
        root=at,
        size=size,
        resize=resize,
        skip_bad=skip_bad,
        domains=None if domains is None else tuple(domains),
        seed=seed,
        workers=workers,
        reporter=reporter,
        max_megapixels=max_megapixels,
        allow_one_class=allow_one_class,
        use_cache=use_cache,
        cache_key=cache_key,
    )
    if entry.embedded and request.root is not None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {request.root}.")
    if not entry.embedded and request.root is None:
        raise DataError(f"{entry.name} needs its files: say where they lie. Expected layout: {entry.layout}.")
    if entry.load is not None:
        return entry.load(request)
    assert entry.index is not None
    return _load_index(entry.index(request), request.size or entry.usual_size, request)


def _load_index(index: ImageIndex, size: tuple[int, int], request: LoadRequest) -> DomainDataset:
    """The decoded images of an index, all of `size` `(height, width)`, from the cache unless the request does without.

    Where the cache cannot be written the images are decoded into memory instead, and that is said.
    """
    # What takes a moment to import, and whoever lists the datasets imports this file.
    from homefold.data.cache.images import CacheUnavailableError, ImageCache
    from homefold.data.decoding.many import decode_all

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


def domain_names(name_or_path: str | Path) -> tuple[str, ...]:
    """The domains of a named dataset (with `name:PATH`, those that lie there) or of a folder, without decoding."""
    entry, root = _entry_of(name_or_path)
    return entry.domains if root is None else _domains_at(entry, root)


def count_images(name_or_path: str | Path, domains: Sequence[str] | None = None) -> np.ndarray:
    """Images of each domain and class, `(domains, classes)`, without decoding what lies in files."""
    entry, root = _entry_of(name_or_path)
    request = LoadRequest(root=root, domains=None if domains is None else tuple(domains))
    if entry.index is not None:
        return entry.index(request).counts()
    assert entry.load is not None
    dataset = entry.load(request)
    counts = np.zeros((len(dataset.domain_names), len(dataset.class_names)), dtype=np.int64)
    np.add.at(counts, (dataset.domains, dataset.labels), 1)
    return counts


def _entry_of(name_or_path: str | Path, root: str | Path | None = None) -> tuple[DatasetEntry, Path | None]:
    """The dataset that a name, `name:PATH` or the path of a folder means, and where its files lie."""
    if isinstance(name_or_path, str):
        name, at = split_name(name_or_path)
        if name in _entries:
            if at is not None and root is not None:
                raise DataError(f"{name}:{at} says where the files lie, and so does root={root}; give one.")
            return _entries[name], at if root is None else given_path(root)
    text = str(name_or_path)
    if root is not None:
        raise DataError(f"There is no dataset {text!r} to look for in {given_path(root)}. {_what_exists(text)}")
    folder = given_path(name_or_path)
    if not os.path.exists(folder):
        raise DataError(f"There is no dataset and no folder {text!r}. {_what_exists(text)}")
    return _entries["folder"], folder


def _domains_at(entry: DatasetEntry, root: Path) -> tuple[str, ...]:
    if entry.index is None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {root}.")
    return entry.index(LoadRequest(root=root, allow_one_class=True)).domain_names


def _what_exists(name: str) -> str:
    names = [known for known in _entries if known != "folder"]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"Known datasets: {', '.join(names)}; or give a folder laid out as {_entries['folder'].layout}.{hint}"
