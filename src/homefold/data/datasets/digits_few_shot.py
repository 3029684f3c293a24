"""MNIST, USPS and SVHN as three domains of digits, for few-shot adaptation from one to another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from homefold.data.arrays import LabelledArray, find_file, index_arrays, read_idx, read_npz, read_svhn, read_usps
from homefold.data.datasets.digits_dg import find_digits_dg
from homefold.data.index import ImageIndex, LoadRequest
from homefold.data.registry import DatasetEntry, register_dataset
from homefold.errors import DataError

__all__ = ["find_digits_few_shot"]

_CLASSES = tuple("0123456789")
_COUNTS = {
    "mnist": (6903, 7877, 6990, 7141, 6824, 6313, 6876, 7293, 6825, 6958),
    "usps": (1553, 1269, 929, 824, 852, 716, 834, 792, 708, 821),
    "svhn": (6692, 18960, 14734, 11379, 9981, 9266, 7704, 7614, 6705, 6254),
}
"""Images of each digit, official training and test images together."""

_EXPECTED = (
    "Expected mnist.npz, usps.npz, svhn.npz with x_train, y_train, x_test, y_test; or what torchvision downloads "
    "(homefold data get digits-few-shot --to DIR)."
)


@register_dataset(
    DatasetEntry(
        name="digits-few-shot",
        description="MNIST, USPS and SVHN as three domains of digits, for few-shot adaptation.",
        source="homefold data get digits-few-shot --to DIR downloads all three through torchvision",
        licence="MNIST CC BY-SA 3.0; USPS as LIBSVM gives it out; SVHN non-commercial",
        layout="<root>/{mnist,usps,svhn}.npz with x_train, y_train, x_test, y_test; or torchvision's MNIST/raw idx "
        "files, usps.bz2 and usps.t.bz2, train_32x32.mat and test_32x32.mat",
        domains=tuple(_COUNTS),
        classes=_CLASSES,
        split_rule="train and test of each",
        published={domain: dict(zip(_CLASSES, counts, strict=True)) for domain, counts in _COUNTS.items()},
        usual_size=(32, 32),
        downloads=("MNIST", "USPS", "SVHN"),
        after_download="Next: homefold data verify digits-few-shot {target}",
    )
)
def find_digits_few_shot(request: LoadRequest) -> ImageIndex:
    """The three sets with their official `train` and `test`, as `.npz` or as torchvision leaves them."""
    root, borrowed = request.folder, list[str]()

    def read(domain: str) -> list[LabelledArray]:
        parts = _from_npz(root, domain) or _RAW[domain](root)
        if domain == "svhn" and parts and all(part.split == "test" for part in parts):
            return [*_borrowed_svhn(root, borrowed), *parts]
        return parts

    index = index_arrays(request, "digits-few-shot", tuple(_COUNTS), _CLASSES, read, _EXPECTED)
    return replace(index, warnings=(*borrowed, *index.warnings))


def _find(root: Path, pattern: str) -> Path | None:
    """Not in the folders of Fashion-MNIST, KMNIST and the like, which have files of MNIST's names."""
    return find_file(root, pattern, but_in=lambda folder: "mnist" in folder and folder != "mnist")


def _from_npz(root: Path, domain: str) -> list[LabelledArray]:
    """Arrays x_train, y_train, x_test, y_test of `<domain>.npz` (or `<domain>_….npz`), those that are there."""
    for path in (_find(root, f"{domain}.npz"), _find(root, f"{domain}_*.npz")):
        if path is not None:
            found = [part for split in ("train", "test") if (part := read_npz(path, split)) is not None]
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


def _raw(read: Callable[[Path, str], LabelledArray], train: str, test: str) -> Callable[[Path], list[LabelledArray]]:
    """Gives what there is of two files."""
    files = {"train": train, "test": test}
    return lambda root: [read(path, split) for split, name in files.items() if (path := _find(root, name)) is not None]


_RAW: dict[str, Callable[[Path], list[LabelledArray]]] = {
    "mnist": _raw_mnist,
    "usps": _raw(read_usps, "usps.bz2", "usps.t.bz2"),
    "svhn": _raw(read_svhn, "train_32x32.mat", "test_32x32.mat"),
}


def _borrowed_svhn(root: Path, warnings: list[str]) -> list[LabelledArray]:
    """The SVHN images of a Digits-DG in the same folder, to train on where only SVHN's test images are there."""
    try:
        index = find_digits_dg(LoadRequest(root=root, domains=("svhn",)))
    except DataError:
        return []
    warnings.append(
        f"SVHN's own training images are not in {root}; those of Digits-DG beside it ({len(index)} of them) stand in "
        "for them."
    )
    return [LabelledArray(index.sources, index.labels, "train")]
