"""The datasets that homefold knows by name, and how each is loaded."""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.data.decoding.image import MAX_MEGAPIXELS, Resize
from homefold.data.index import ImageIndex, ImageSource, KeyKind, LoadRequest
from homefold.data.paths import given_path
from homefold.errors import DataError
from homefold.runtime.registry import Registry
from homefold.runtime.text import counted

if TYPE_CHECKING:
    import pandas

    from homefold.data.rows import Table
    from homefold.runtime.progress import ProgressReporter

__all__ = [
    "DataSource",
    "DatasetEntry",
    "count_images",
    "dataset_entry",
    "domain_names",
    "form_at",
    "is_frame",
    "list_datasets",
    "listed_images",
    "load_dataset",
    "register_dataset",
    "split_name",
]

DataSource: TypeAlias = "str | Path | pandas.DataFrame"
"""A dataset's name, `name:PATH`, a path, or a table of paths in memory."""

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
        earlier: `{domain: count}` of an earlier release, which is right too.
        usual_size: `(height, width)` where none is asked for.
        downloads: torchvision's names for its parts, where torchvision can download them.
        after_download: what to do next.
        embedded: whether it needs no files.
        index: finds its images without decoding any; None where there are no files.
        load: makes the dataset where there are no files.
        recognises: whether a path that is given without a name is of this form; None where the name must be said.
        table: lists its images without asking for labels, where some file does; a pattern can then tell the domains.
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
    earlier: Mapping[str, int] | None = None
    usual_size: tuple[int, int] = (224, 224)
    downloads: tuple[str, ...] = ()
    after_download: str = ""
    embedded: bool = False
    index: Callable[[LoadRequest], ImageIndex] | None = None
    load: Callable[[LoadRequest], DomainDataset] | None = None
    recognises: Callable[[Path], bool] | None = None
    table: Callable[[LoadRequest], Table] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain values that JSON can hold, without its functions."""
        functions = ("index", "load", "recognises", "table")
        return {key: value for key, value in asdict(self).items() if key not in functions}


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


def is_frame(value: Any) -> bool:
    """Whether it is a pandas DataFrame."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and isinstance(value, pandas.DataFrame)


def form_at(path: Path, domain_from: str = "") -> DatasetEntry:
    """The form of a dataset at a path that was given without a name: a folder of domains unless it is another.

    A pattern in `domain_from` reads a folder in its own way.
    """
    entry = next((entry for entry in _entries.values() if entry.recognises and entry.recognises(path)), None)
    return entry or _entries["pattern" if domain_from else "folder"]


def listed_images(data: Any, root: str | Path = ".") -> list[ImageSource] | None:
    """The images that a table, a tar of samples or a data frame lists, labelled or not; None where it is none.

    Args:
        data: a path, `name:PATH`, or a pandas DataFrame.
        root: where the relative paths of a data frame start.
    """
    if is_frame(data):
        from homefold.data.datasets.manifest import read_frame

        return read_frame(data, LoadRequest(root=given_path(root))).sources
    name, at = split_name(str(data))
    path = given_path(data) if at is None else at
    entry = form_at(path) if at is None else _entries[name]
    return None if entry.table is None or entry.name == "pattern" else entry.table(LoadRequest(root=path)).sources


def load_dataset(
    name_or_path: DataSource,
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
    domain_from: str = "",
) -> DomainDataset:
    """Load a dataset by its name, or by its path: a folder `root/domain/class/image`, or a file that lists images.

    A known name wins over a folder of that name in the current directory; write `./name` for the folder. Domains
    that are not asked for are not decoded.

    Args:
        name_or_path: a name of `list_datasets()`, `name:PATH` with where its files lie, a folder, a table (CSV,
            parquet), a tar of samples, or a pandas DataFrame with the columns `path` (or `image`), `label`, `domain`.
        root: where the files of a named dataset lie, when the name does not say it; where the relative paths of a data
            frame start, by default in the current folder.
        size, resize, skip_bad, domains, domain_from, reporter, seed, workers: as in `LoadRequest`.
        max_megapixels, allow_one_class, use_cache, cache_key: as in `LoadRequest`.
    """
    entry, at = _entry_of(name_or_path, root, domain_from)
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
        domain_from=domain_from,
    )
    _require_place(entry, request.root)
    if entry.load is not None:
        return entry.load(request)
    assert entry.index is not None
    return _load_index(entry.index(request), request.size or entry.usual_size, request)


def _require_place(entry: DatasetEntry, root: Path | None) -> None:
    """Refuse files of a dataset that has none, and the other way round."""
    if entry.embedded and root is not None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {root}.")
    if not entry.embedded and root is None:
        raise DataError(
            f"{entry.name} needs its files: say where they lie, as {entry.name}:FOLDER. Expected layout: "
            f"{entry.layout}."
        )


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


def domain_names(name_or_path: DataSource, domain_from: str = "") -> tuple[str, ...]:
    """The domains of a named dataset (with `name:PATH`, those that lie there), a path or a data frame; decodes none."""
    entry, root = _entry_of(name_or_path, None, domain_from)
    return entry.domains if root is None else _domains_at(entry, root, domain_from)


def count_images(name_or_path: DataSource, domains: Sequence[str] | None = None, domain_from: str = "") -> np.ndarray:
    """Images of each domain and class, `(domains, classes)`, without decoding what lies in files."""
    entry, root = _entry_of(name_or_path, None, domain_from)
    _require_place(entry, root)
    request = LoadRequest(root=root, domains=None if domains is None else tuple(domains), domain_from=domain_from)
    if entry.index is not None:
        return entry.index(request).counts()
    assert entry.load is not None
    dataset = entry.load(request)
    counts = np.zeros((len(dataset.domain_names), len(dataset.class_names)), dtype=np.int64)
    np.add.at(counts, (dataset.domains, dataset.labels), 1)
    return counts


def _entry_of(
    data: DataSource, root: str | Path | None = None, domain_from: str = ""
) -> tuple[DatasetEntry, Path | None]:
    """The dataset that a name, `name:PATH`, a path or a data frame means, and where its files lie."""
    if is_frame(data):
        from homefold.data.datasets.manifest import find_frame, read_frame

        entry = replace(_entries["manifest"], index=partial(find_frame, data), table=partial(read_frame, data))
        return entry, given_path(root or ".")
    named, at = _named_entry(data, root)
    if named is None:
        at = given_path(data)
        entry = form_at(at, domain_from)
        if entry.name in ("folder", "pattern") and not os.path.exists(at):
            raise DataError(f"There is no dataset and no folder {str(data)!r}. {_what_exists(str(data))}")
    else:
        entry = _entries["pattern"] if domain_from and named.name == "folder" else named
    if domain_from and entry.table is None:
        raise DataError(f"{entry.name} says itself which domains it has: leave out the pattern {domain_from}.")
    return entry, at


def _named_entry(data: DataSource, root: str | Path | None) -> tuple[DatasetEntry | None, Path | None]:
    """The dataset that is named, and where its files are said to lie; None where none is."""
    if isinstance(data, str):
        name, at = split_name(data)
        if name in _entries:
            if at is not None and root is not None:
                raise DataError(f"{name}:{at} says where the files lie, and so does root={root}; give one.")
            return _entries[name], at if root is None else given_path(root)
    if root is not None:
        raise DataError(
            f"There is no dataset {str(data)!r} to look for in {given_path(root)}. {_what_exists(str(data))}"
        )
    return None, None


def _domains_at(entry: DatasetEntry, root: Path, domain_from: str = "") -> tuple[str, ...]:
    if entry.index is None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {root}.")
    request = LoadRequest(root=root, allow_one_class=True, domain_from=domain_from)
    if entry.table is not None:
        # What else a row says is looked at when its domain is wanted: a held-out one may have no labels.
        return entry.table(request).named_by(domain_from).domain_names
    return entry.index(request).domain_names


def _what_exists(name: str) -> str:
    names = [known for known in _entries if known != "folder"]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"Known datasets: {', '.join(names)}; or give a folder laid out as {_entries['folder'].layout}.{hint}"
