"""Fetching what torchvision can fetch, when a person asks for it; nothing here runs on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from homefold.data.paths import given_path
from homefold.data.registry import dataset_entry
from homefold.errors import DataError

__all__ = ["download_dataset", "list_downloads"]

_MNIST_FOLDER = Path("MNIST", "raw")


def list_downloads() -> tuple[str, ...]:
    """The names that `download_dataset` takes."""
    return tuple(_DOWNLOADS)


def download_dataset(name: str, folder: str | Path) -> str:
    """Download a dataset through torchvision, checked against the sums that torchvision knows.

    Args:
        name: one of `list_downloads()`; any other dataset gets a sentence with where people get it.
        folder: where to put it; made if it does not exist.

    Returns:
        A sentence on what to do next.
    """
    if name not in _DOWNLOADS:
        entry = dataset_entry(name)
        if entry.embedded:
            raise DataError(f"{name} is embedded and needs no files.")
        raise DataError(
            f"{name} cannot be downloaded from here. Get it from {entry.source}; licence: {entry.licence}. "
            f"Then lay it out as {entry.layout}."
        )
    target = given_path(folder)
    parts, then = _DOWNLOADS[name]
    try:
        target.mkdir(parents=True, exist_ok=True)
        for part in parts:
            part(target)
    # Torchvision raises RuntimeError for a wrong sum, urllib's errors are OSError.
    except (OSError, RuntimeError) as error:
        raise DataError(
            f"{name} could not be downloaded to {target} ({error}); start the same command again."
        ) from None
    return then.format(target=target)


def _mnist(target: Path) -> None:
    from torchvision.datasets import MNIST

    for filename, checksum in MNIST.resources:
        _fetch_from_any(MNIST.mirrors, filename, checksum, target / _MNIST_FOLDER)


def _fetch_from_any(mirrors: list[str], filename: str, checksum: str, folder: Path) -> None:
    """Try one mirror after the other; the last one's error is the one that is told."""
    from torchvision.datasets.utils import download_and_extract_archive

    for position, mirror in enumerate(mirrors, start=1):
        try:
            download_and_extract_archive(f"{mirror}{filename}", str(folder), filename=filename, md5=checksum)
            return
        except (OSError, RuntimeError):
            if position == len(mirrors):
                raise


def _usps(target: Path) -> None:
    from torchvision.datasets import USPS
    from torchvision.datasets.utils import download_url

    for url, filename, checksum in USPS.split_list.values():
        download_url(url, str(target), filename, md5=checksum)


def _svhn(target: Path) -> None:
    from torchvision.datasets import SVHN
    from torchvision.datasets.utils import download_url

    for split in ("train", "test"):
        url, filename, checksum = SVHN.split_list[split]
        download_url(url, str(target), filename, md5=checksum)


def _cifar10(target: Path) -> None:
    # The class itself would unpickle what it downloads; only its addresses are used.
    from torchvision.datasets import CIFAR10
    from torchvision.datasets.utils import download_and_extract_archive

    download_and_extract_archive(CIFAR10.url, str(target), filename=CIFAR10.filename, md5=CIFAR10.tgz_md5)


_DIGITS_NEXT = "Next: homefold data verify digits-few-shot {target}"
_CIFAR_NEXT = (
    "This is CIFAR-10, the domain `clean` of cifar10-c. The corrupted images come from Zenodo record 2535967; unpack "
    "CIFAR-10-C.tar in {target}. Next: homefold data verify cifar10-c {target}"
)
_DOWNLOADS: dict[str, tuple[tuple[Callable[[Path], None], ...], str]] = {
    "digits-few-shot": ((_mnist, _usps, _svhn), _DIGITS_NEXT),
    "cifar10-c": ((_cifar10,), _CIFAR_NEXT),
    "mnist": ((_mnist,), _DIGITS_NEXT),
    "usps": ((_usps,), _DIGITS_NEXT),
    "svhn": ((_svhn,), _DIGITS_NEXT),
    "cifar10": ((_cifar10,), _CIFAR_NEXT),
}
