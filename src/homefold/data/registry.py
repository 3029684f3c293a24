"""The datasets that homefold knows by name, and how each is loaded."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any

from homefold.data.archive_folder import index_archive
from homefold.data.archives import is_archive
from homefold.data.dataset import DomainDataset
from homefold.data.digits_mini import DIGITS_MINI_CLASSES, DIGITS_MINI_DOMAINS, load_digits_mini
from homefold.data.folder import index_folder
from homefold.data.image_cache import KeyKind
from homefold.data.images import MAX_MEGAPIXELS, Resize, resize_images
from homefold.data.index import ImageIndex
from homefold.data.loading import load_index
from homefold.data.paths import given_path
from homefold.errors import DataError
from homefold.runtime.progress import ProgressReporter

__all__ = [
    "DatasetEntry",
    "LoadRequest",
    "dataset_entry",
    "domain_names",
    "list_datasets",
    "load_by_index",
    "load_dataset",
    "register_dataset",
    "split_name",
]


@dataclass(frozen=True)
class LoadRequest:
    """How a dataset is wanted: what every loader is given.

    Args:
        root: where its files lie; None for an embedded dataset.
        size: `(height, width)` of every image; None for what the dataset usually has.
        resize: `"squash"` or `"crop"`, as in `decode_image`.
        skip_bad: leave images out that cannot be decoded.
        domains: only these; None for all.
        seed: decides what is random in the dataset.
        workers: threads that decode; None for as many as there are cores, or decoder processes where they pay.
        reporter: is told the progress and the warnings.
        max_megapixels: larger images count as bad.
        allow_one_class: accept a single class, which can be predicted but not learned.
        use_cache: keep decoded images on disk, and take them from there.
        cache_key: `"times"` trusts places, sizes and times of files met before; `"content"` reads every byte anew.
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


@dataclass(frozen=True)
class DatasetEntry:
    """One named dataset.

    Args:
        name: what people type.
        description: one line on what it shows.
        source: where people get it.
        licence: on what terms.
        layout: how its files must lie.
        domains: its domain names; empty when the files decide.
        classes: its class names; empty when the files decide.
        embedded: whether it needs no files.
        load: makes the dataset.
        index: finds its images without decoding any; None where there are no files.
        published: how many images it should have, `{domain: {class: count}}` or `{domain: count}`; None when unknown.
    """

    name: str
    description: str
    source: str
    licence: str
    layout: str
    domains: tuple[str, ...]
    classes: tuple[str, ...]
    embedded: bool
    load: Callable[[LoadRequest], DomainDataset]
    index: Callable[[LoadRequest], ImageIndex] | None = None
    published: Mapping[str, Mapping[str, int] | int] | None = None

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain values that JSON can hold, without its functions."""
        return {key: value for key, value in asdict(self).items() if key not in ("load", "index")}


_entries: dict[str, DatasetEntry] = {}


def register_dataset(entry: DatasetEntry) -> None:
    """Make a dataset known by its name; a name can be taken once."""
    if entry.name in _entries:
        raise ValueError(f"a dataset called {entry.name!r} is registered already")
    _entries[entry.name] = entry


def list_datasets() -> tuple[DatasetEntry, ...]:
    """Every known dataset, the embedded ones first, then by name."""
    return tuple(sorted(_entries.values(), key=lambda entry: (not entry.embedded, entry.name)))


def dataset_entry(name: str) -> DatasetEntry:
    """The dataset called `name`; an unknown name gets a sentence with those that exist.

    Of `name:PATH` the domains are those that lie at PATH.
    """
    name, root = split_name(name)
    if name not in _entries:
        raise DataError(f"There is no dataset {name!r}. {_what_exists(name)}")
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


def load_by_index(
    find: Callable[[LoadRequest], ImageIndex], usual_size: tuple[int, int] = (224, 224)
) -> Callable[[LoadRequest], DomainDataset]:
    """The loader of a dataset that is found by `find` and decoded through the cache.

    Args:
        find: gives the images of the domains asked for, and of no others.
        usual_size: `(height, width)` where none is asked for.
    """

    def load(request: LoadRequest) -> DomainDataset:
        return load_index(
            find(request),
            size=request.size or usual_size,
            resize=request.resize,
            skip_bad=request.skip_bad,
            workers=request.workers,
            reporter=request.reporter,
            max_megapixels=request.max_megapixels,
            use_cache=request.use_cache,
            cache_key=request.cache_key,
        )

    return load


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
    if isinstance(name_or_path, str):
        name_or_path, at = split_name(name_or_path)
        if at is not None and root is not None:
            raise DataError(f"{name_or_path}:{at} says where the files lie, and so does root={root}; give one.")
        root = at if at is not None else root
    request = LoadRequest(
        root=None if root is None else given_path(root),
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
    if isinstance(name_or_path, str) and name_or_path in _entries:
        return _load_named(_entries[name_or_path], request)
    return _load_path(name_or_path, request)


def domain_names(name_or_path: str | Path) -> tuple[str, ...]:
    """The domains of a named dataset (with `name:PATH`, those that lie there) or of a folder, without decoding."""
    if isinstance(name_or_path, str) and split_name(name_or_path)[1] is not None:
        return dataset_entry(name_or_path).domains
    if isinstance(name_or_path, str) and name_or_path in _entries:
        return _entries[name_or_path].domains
    folder = given_path(name_or_path)
    if not os.path.exists(folder):
        raise DataError(f"There is no dataset and no folder {str(name_or_path)!r}. {_what_exists(str(name_or_path))}")
    return _index_any_folder(LoadRequest(root=folder, allow_one_class=True)).domain_names


def _domains_at(entry: DatasetEntry, root: Path) -> tuple[str, ...]:
    if entry.index is None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {root}.")
    return entry.index(LoadRequest(root=root, allow_one_class=True)).domain_names


def _load_named(entry: DatasetEntry, request: LoadRequest) -> DomainDataset:
    if entry.embedded and request.root is not None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {request.root}.")
    if not entry.embedded and request.root is None:
        raise DataError(f"{entry.name} needs its files: say where they lie. Expected layout: {entry.layout}.")
    return entry.load(request)


def _load_path(path: str | Path, request: LoadRequest) -> DomainDataset:
    if request.root is not None:
        raise DataError(f"There is no dataset {str(path)!r} to look for in {request.root}. {_what_exists(str(path))}")
    folder = given_path(path)
    if not os.path.exists(folder):
        raise DataError(f"There is no dataset and no folder {str(path)!r}. {_what_exists(str(path))}")
    return _load_any_folder(replace(request, root=folder))


def _what_exists(name: str) -> str:
    names = [entry.name for entry in list_datasets() if entry.name != "folder"]
    close = difflib.get_close_matches(name, names, n=1)
    hint = f" Did you mean {close[0]}?" if close else ""
    return f"Known datasets: {', '.join(names)}; or give a folder laid out as {_FOLDER_LAYOUT}.{hint}"


def _load_embedded_digits(request: LoadRequest) -> DomainDataset:
    dataset = load_digits_mini(request.seed)
    if request.domains is not None:
        dataset = dataset.only(*request.domains)
    if request.size is not None:
        dataset = replace(dataset, images=resize_images(dataset.images, request.size, request.resize))
    return dataset


def _index_any_folder(request: LoadRequest) -> ImageIndex:
    assert request.root is not None
    find = index_archive if request.root.is_file() and is_archive(request.root) else index_folder
    return find(request.root, domains=request.domains, allow_one_class=request.allow_one_class)


_load_any_folder = load_by_index(_index_any_folder)
_FOLDER_LAYOUT = "<folder>/<domain>/<class>/<image>"

register_dataset(
    DatasetEntry(
        name="digits-mini",
        description="Digits in four domains (handwriting, photo, print, street): 3,480 images of 32 px.",
        source="made on this machine from scikit-learn's digits and photographs and matplotlib's fonts",
        licence="scikit-learn's (BSD-3-Clause; the photographs CC BY 2.0) and that of matplotlib's fonts",
        layout="none: it needs no files",
        domains=DIGITS_MINI_DOMAINS,
        classes=DIGITS_MINI_CLASSES,
        embedded=True,
        load=_load_embedded_digits,
    )
)
register_dataset(
    DatasetEntry(
        name="folder",
        description="Any folder of images, one folder a domain and in it one folder a class.",
        source="your own images",
        licence="your own",
        layout=_FOLDER_LAYOUT,
        domains=(),
        classes=(),
        embedded=False,
        load=_load_any_folder,
        index=_index_any_folder,
    )
)

# Each registers its dataset here, and so comes after all it needs of this file.
for _file in ("cifar10_c", "digits_dg", "digits_few_shot", "office_home", "pacs", "vlcs"):
    import_module(f"homefold.data.{_file}")
