"""The datasets that homefold knows by name, and how each is loaded."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from homefold.data.dataset import DomainDataset
from homefold.data.digits_mini import DIGITS_MINI_CLASSES, DIGITS_MINI_DOMAINS, load_digits_mini
from homefold.data.folder import load_folder, scan_folder
from homefold.data.images import MAX_MEGAPIXELS, Resize, resize_images
from homefold.errors import DataError
from homefold.progress import ProgressReporter

__all__ = [
    "DatasetEntry",
    "LoadRequest",
    "dataset_entry",
    "domain_names",
    "list_datasets",
    "load_dataset",
    "register_dataset",
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
        workers: threads that decode; None for as many as there are cores.
        reporter: is told the progress and the warnings.
        max_megapixels: larger images count as bad.
        allow_one_class: accept a single class, which can be predicted but not learned.
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

    def as_dict(self) -> dict[str, Any]:
        """The entry as plain values that JSON can hold, without its loader."""
        return {key: value for key, value in asdict(self).items() if key != "load"}


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
    """The dataset called `name`; an unknown name gets a sentence with those that exist."""
    if name not in _entries:
        raise DataError(f"There is no dataset {name!r}. {_what_exists(name)}")
    return _entries[name]


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
) -> DomainDataset:
    """Load a dataset by its name, or a folder `root/domain/class/image` by its path.

    A known name wins over a folder of that name in the current directory; write `./name` for the folder.

    Args:
        name_or_path: a name of `list_datasets()`, or a folder.
        root: where the files of a named dataset lie.
        size, resize, skip_bad, domains, reporter, seed, workers, max_megapixels, allow_one_class: as in
            `LoadRequest`.
    """
    request = LoadRequest(
        root=None if root is None else Path(root).expanduser(),
        size=size,
        resize=resize,
        skip_bad=skip_bad,
        domains=None if domains is None else tuple(domains),
        seed=seed,
        workers=workers,
        reporter=reporter,
        max_megapixels=max_megapixels,
        allow_one_class=allow_one_class,
    )
    if isinstance(name_or_path, str) and name_or_path in _entries:
        return _load_named(_entries[name_or_path], request)
    return _load_path(name_or_path, request)


def domain_names(name_or_path: str | Path) -> tuple[str, ...]:
    """The domains of a named dataset or of a folder, found without decoding any image."""
    if isinstance(name_or_path, str) and name_or_path in _entries:
        return _entries[name_or_path].domains
    folder = Path(name_or_path).expanduser()
    if not folder.exists():
        raise DataError(f"There is no dataset and no folder {str(name_or_path)!r}. {_what_exists(str(name_or_path))}")
    return scan_folder(folder, allow_one_class=True).domain_names


def _load_named(entry: DatasetEntry, request: LoadRequest) -> DomainDataset:
    if entry.embedded and request.root is not None:
        raise DataError(f"{entry.name} is embedded and has no files: leave out {request.root}.")
    if not entry.embedded and request.root is None:
        raise DataError(f"{entry.name} needs its files: say where they lie. Expected layout: {entry.layout}.")
    return entry.load(request)


def _load_path(path: str | Path, request: LoadRequest) -> DomainDataset:
    if request.root is not None:
        raise DataError(f"There is no dataset {str(path)!r} to look for in {request.root}. {_what_exists(str(path))}")
    folder = Path(path).expanduser()
    if not folder.exists():
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


def _load_any_folder(request: LoadRequest) -> DomainDataset:
    assert request.root is not None
    return load_folder(
        request.root,
        size=request.size or (224, 224),
        resize=request.resize,
        skip_bad=request.skip_bad,
        domains=request.domains,
        workers=request.workers,
        reporter=request.reporter,
        max_megapixels=request.max_megapixels,
        allow_one_class=request.allow_one_class,
    )


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
    )
)
