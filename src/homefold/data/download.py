"""Fetching what torchvision can fetch, when a person asks for it; nothing here runs on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from homefold.data.paths import given_path
from homefold.data.registry import DatasetEntry, dataset_entry, list_datasets
from homefold.errors import DataError

__all__ = ["download_dataset", "list_downloads"]


def _downloads() -> dict[str, tuple[tuple[str, ...], DatasetEntry]]:
    """By name, what is fetched for it and the dataset that it belongs to: whole datasets, then their parts."""
    entries = [entry for entry in reversed(list_datasets()) if entry.downloads]
    whole = {entry.name: (entry.downloads, entry) for entry in entries}
    return whole | {part.lower(): ((part,), entry) for entry in entries for part in entry.downloads}


def list_downloads() -> tuple[str, ...]:
    """The names that `download_dataset` takes."""
    return tuple(_downloads())


def download_dataset(name: str, folder: str | Path) -> str:
    """Download a dataset through torchvision, checked against the sums that torchvision knows.

    Args:
        name: one of `list_downloads()`; any other dataset gets a sentence with where people get it.
        folder: where to put it; made if it does not exist.

    Returns:
        A sentence on what to do next.
    """
    downloads = _downloads()
    if name not in downloads:
        entry = dataset_entry(name)
        if entry.embedded:
            raise DataError(f"{name} is embedded and needs no files.")
        raise DataError(
            f"{name} cannot be downloaded from here. Get it from {entry.source}; licence: {entry.licence}. "
            f"Then lay it out as {entry.layout}."
        )
    target, (parts, entry) = given_path(folder), downloads[name]
    try:
        target.mkdir(parents=True, exist_ok=True)
        for part in parts:
            _FETCHED[part](target)
    # Torchvision raises RuntimeError for a wrong sum, urllib's errors are OSError.
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{name} could not be downloaded to {target} ({error}); start the same command again."
        ) from None
    return entry.after_download.format(target=target)


# Not by torchvision's own classes, which would also unpickle what they download: only their addresses are used.


def _mnist(target: Path) -> None:
    from torchvision.datasets import MNIST
    from torchvision.datasets.utils import download_and_extract_archive

    folder = str(target / "MNIST" / "raw")
    for filename, checksum in MNIST.resources:
        for mirror in MNIST.mirrors:
            try:
                download_and_extract_archive(f"{mirror}{filename}", folder, filename=filename, md5=checksum)
                break
            except (OSError, RuntimeError):
                if mirror == MNIST.mirrors[-1]:
                    raise


def _by_split(target: Path, kind: str, *splits: str) -> None:
    from torchvision import datasets
    from torchvision.datasets.utils import download_url

    for split in splits:
        url, filename, checksum = getattr(datasets, kind).split_list[split]
        download_url(url, str(target), filename, md5=checksum)


def _cifar10(target: Path) -> None:
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import download_and_extract_archive

    download_and_extract_archive(CIFAR10.url, str(target), filename=CIFAR10.filename, md5=CIFAR10.tgz_md5)


_FETCHED: dict[str, Callable[[Path], None]] = {
    "MNIST": _mnist,
    "USPS": lambda target: _by_split(target, "USPS", "train", "test"),
    "SVHN": lambda target: _by_split(target, "SVHN", "train", "test"),
    "CIFAR10": _cifar10,
}
