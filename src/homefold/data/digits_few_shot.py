"""MNIST, USPS and SVHN as three domains of digits, for few-shot adaptation from one to another."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

# The file, not its function, which is not there yet where that file is imported first.
from homefold.data import digits_dg
from homefold.data.array_files import LabelledArray, index_arrays, read_idx, read_npz, read_svhn, read_usps
from homefold.data.index import ImageIndex
from homefold.data.registry import DatasetEntry, LoadRequest, load_by_index, register_dataset
from homefold.errors import DataError

__all__ = ["find_digits_few_shot"]

_DOMAINS = ("mnist", "usps", "svhn")
_CLASSES = tuple("0123456789")
_COUNTS = {
    "mnist": (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958),
    "usps": (1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821),
    "svhn": (6692, 18960, 14734, 11379, 9981, 9266, 7704, 7614, 6705, 6254),
}
"""Images of each digit, official training and test images together."""

_PLACES = (".", "*", "*/raw")
_BORROWED = (
    "SVHN's own training images are not in {root}; those of Digits-DG beside it ({n} of them) stand in for them."
)


def find_digits_few_shot(request: LoadRequest) -> ImageIndex:
    """The three sets with their official `train` and `test`, as `.npz` or as torchvision leaves them."""
    root = request.root
    assert root is not None
    if not root.is_dir():
        raise DataError(f"There is no folder {root} to look for digits-few-shot in.")
    wanted = _DOMAINS if request.domains is None else request.domains
    for domain in wanted:
        if domain not in _DOMAINS:
            raise DataError(f"There is no domain {domain!r} in digits-few-shot; it has {', '.join(_DOMAINS)}.")
    found: dict[str, list[LabelledArray]] = {}
    warnings: list[str] = []
    for domain in wanted:
        parts = _from_npz(root, domain) or _RAW[domain](root)
        if domain == "svhn" and parts and all(part.split == "test" for part in parts):
            parts = [*_borrowed_svhn(root, warnings), *parts]
        if parts:
            found[domain] = parts
        elif request.domains is not None:
            raise DataError(f"There are no files of {domain} in {root}. {_EXPECTED}")
        else:
            warnings.append(f"digits-few-shot in {root} has no files of {domain}.")
    if not found:
        raise DataError(f"There are no files of {', '.join(wanted)} in {root}. {_EXPECTED}")
    return index_arrays("digits-few-shot", root, found, _CLASSES, tuple(warnings))


def _find(root: Path, pattern: str) -> Path | None:
    paths = (path for place in _PLACES for path in sorted(root.glob(f"{place}/{pattern}")))
    return next((path for path in paths if not _belongs_to_another_set(path.relative_to(root))), None)


def _belongs_to_another_set(path: Path) -> bool:
    """Fashion-MNIST, KMNIST and the like lie beside MNIST in torchvision's folder, in files of the same names."""
    folders = [folder.casefold() for folder in path.parts[:-1]]
    return any("mnist" in folder and folder != "mnist" for folder in folders)


def _from_npz(root: Path, domain: str) -> list[LabelledArray]:
    """Arrays x_train, y_train, x_test, y_test of `<domain>.npz` (or `<domain>_….npz`), those that are there."""
    for path in (_find(root, f"{domain}.npz"), _find(root, f"{domain}_*.npz")):
        if path is not None:
            parts = [read_npz(path, split) for split in ("train", "test")]
            found = [part for part in parts if part is not None]
            if not found:
                raise DataError(f"{path} has neither y_train nor y_test; expected x_train, y_train, x_test, y_test.")
            return found
    return []


def _raw_mnist(root: Path) -> list[LabelledArray]:
    parts = []
    for prefix, split in (("train", "train"), ("t10k", "test")):
        pairs = [
            (_find(root, f"{prefix}-images*idx3-ubyte{end}"), _find(root, f"{prefix}-labels*idx1-ubyte{end}"))
            for end in ("", ".gz")
        ]
        images, labels = next((pair for pair in pairs if all(pair)), (None, None))
        if images is not None and labels is not None:
            parts.append(read_idx(images, labels, split))
    return parts


def _raw_usps(root: Path) -> list[LabelledArray]:
    files = (("usps.bz2", "train"), ("usps.t.bz2", "test"))
    return [read_usps(path, split) for name, split in files if (path := _find(root, name)) is not None]


def _raw_svhn(root: Path) -> list[LabelledArray]:
    files = (("train_32x32.mat", "train"), ("test_32x32.mat", "test"))
    return [read_svhn(path, split) for name, split in files if (path := _find(root, name)) is not None]


_RAW: dict[str, Callable[[Path], list[LabelledArray]]] = {
    "mnist": _raw_mnist,
    "usps": _raw_usps,
    "svhn": _raw_svhn,
}


def _borrowed_svhn(root: Path, warnings: list[str]) -> list[LabelledArray]:
    """The SVHN images of a Digits-DG in the same folder, to train on where only SVHN's test images are there."""
    try:
        index = digits_dg.find_digits_dg(LoadRequest(root=root, domains=("svhn",)))
    except DataError:
        return []
    warnings.append(_BORROWED.format(root=root, n=len(index)))
    return [LabelledArray(index.sources, np.asarray(index.labels), "train")]


_EXPECTED = (
    "Expected mnist.npz, usps.npz, svhn.npz with x_train, y_train, x_test, y_test; or what torchvision downloads "
    "(homefold data get digits-few-shot --to DIR)."
)

register_dataset(
    DatasetEntry(
        name="digits-few-shot",
        description="MNIST, USPS and SVHN as three domains of digits, for few-shot adaptation.",
        source="homefold data get digits-few-shot --to DIR downloads all three through torchvision",
        licence="MNIST CC BY-SA 3.0; USPS as LIBSVM gives it out; SVHN non-commercial",
        layout="<root>/{mnist,usps,svhn}.npz with x_train, y_train, x_test, y_test; or torchvision's MNIST/raw idx "
        "files, usps.bz2 and usps.t.bz2, train_32x32.mat and test_32x32.mat",
        domains=_DOMAINS,
        classes=_CLASSES,
        embedded=False,
        load=load_by_index(find_digits_few_shot, usual_size=(32, 32)),
        index=find_digits_few_shot,
        published={domain: dict(zip(_CLASSES, counts, strict=True)) for domain, counts in _COUNTS.items()},
    )
)
