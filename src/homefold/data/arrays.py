"""Images in arrays: those that a person has in memory, and the files of MNIST, USPS, SVHN and CIFAR-10."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from homefold.data.dataset import DomainDataset
from homefold.data.decoding.image import Resize, resize_images
from homefold.data.index import ImageIndex, ImageSource, LoadRequest, Stamp, check_domains, file_stamp
from homefold.data.paths import reading
from homefold.errors import DataError
from homefold.runtime.text import some

__all__ = [
    "ArrayFile",
    "ArrayImage",
    "LabelledArray",
    "dataset_from_arrays",
    "find_file",
    "images_from_array",
    "index_arrays",
    "read_cifar_batch",
    "read_idx",
    "read_npz",
    "read_svhn",
    "read_usps",
    "without_torch",
]

_IDX_BYTES = 0x08


def dataset_from_arrays(
    images: Any,
    labels: Any,
    domains: Any,
    *,
    class_names: Sequence[str] | None = None,
    domain_names: Sequence[str] | None = None,
    name: str = "arrays",
) -> DomainDataset:
    """A dataset from numpy arrays, torch tensors or lists.

    Args:
        images: as `images_from_array` takes them.
        labels: `(n,)` integers or text. With `class_names`, integers index them and text must be among them;
            without, the values that occur, sorted, become the classes.
        domains: `(n,)` integers or text, likewise.
        class_names, domain_names: one name each.
        name: what the dataset is called in records.
    """
    pixels = images_from_array(images)
    label_indices, classes = _indices_and_names(labels, class_names, "labels", len(pixels))
    domain_indices, origins = _indices_and_names(domains, domain_names, "domains", len(pixels))
    return DomainDataset(pixels, label_indices, domain_indices, classes, origins, name)


def images_from_array(images: Any) -> np.ndarray:
    """Images as `(n, height, width, 3)` uint8.

    Args:
        images: integers from 0 to 255 or floats from 0 to 1, of shape `(n, height, width, channels)`,
            `(n, channels, height, width)` or `(n, height, width)`. The axis that measures 3 is the colour
            (the last, if both could be), else the axis that measures 1 is a grey that is repeated. An array
            of three axes, the first or last of which measures 3, is one image in colour.
    """
    array = _as_numpy(images, "images")
    if array.size == 0:
        raise DataError(f"images must hold at least one pixel; got an array of shape {array.shape}.")
    return np.ascontiguousarray(_to_bytes(_channels_last(array)))


def without_torch(values: Any) -> Any:
    """Torch tensors as numpy arrays, those of a precision that numpy lacks as float32; anything else as it is."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(values, torch.Tensor):
        return values
    if values.layout != torch.strided:
        raise DataError(f"a tensor of layout {values.layout} cannot be used; make it dense with to_dense().")
    if values.is_quantized:
        raise DataError("a quantised tensor cannot be used; make it floats with dequantize().")
    if values.is_meta:
        raise DataError("a tensor on the meta device holds no values; move it to the CPU before it is given.")
    values = values.detach().cpu().resolve_conj().resolve_neg()
    numpy_has = (torch.float16, torch.float32, torch.float64)
    return (values.float() if values.is_floating_point() and values.dtype not in numpy_has else values).numpy()


def _as_numpy(values: Any, what: str) -> np.ndarray:
    try:
        return np.asarray(without_torch(values))
    except ValueError as error:
        raise DataError(f"{what} must form one array; they do not ({error}).") from None


def _channels_last(array: np.ndarray) -> np.ndarray:
    """`(n, height, width, 3)` in the values' own type."""
    if array.ndim == 3 and 3 in (array.shape[2], array.shape[0]):
        array = array[None]  # one image in colour, not a stack of greys three pixels wide
    elif array.ndim == 3:
        array = array[..., None]
    if array.ndim == 4:
        for channels in (3, 1):
            if array.shape[3] == channels:
                return np.broadcast_to(array, (*array.shape[:3], 3))
            if array.shape[1] == channels:
                return np.broadcast_to(array.transpose(0, 2, 3, 1), (len(array), *array.shape[2:], 3))
    raise DataError(
        "images must be of shape (n, height, width, 3), (n, 3, height, width) or (n, height, width), "
        f"with 1 for 3 allowed; got {array.shape}."
    )


def _to_bytes(array: np.ndarray) -> np.ndarray:
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind not in "iuf":
        raise DataError(f"images must be uint8 or floats from 0 to 1; got {array.dtype}.")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        at = np.argwhere(~np.isfinite(array))[0]
        raise DataError(f"images hold NaN or infinity, first in image {at[0]}; remove or repair it.")
    low, high = array.min(), array.max()
    allowed = 1 if array.dtype.kind == "f" else 255
    if low < 0 or high > allowed:
        raise DataError(
            f"{array.dtype} images must run from 0 to {allowed}; these run from {low:g} to {high:g}. "
            "Undo any normalisation, or pass uint8."
        )
    return array.astype(np.uint8) if allowed == 255 else np.rint(array * 255.0).astype(np.uint8)


def _indices_and_names(
    values: Any, names: Sequence[str] | None, what: str, n: int
) -> tuple[np.ndarray, tuple[str, ...]]:
    """`(n,)` indices into the names, and the names."""
    array = _as_numpy(values, what)
    if array.shape != (n,):
        raise DataError(f"{what} must be one value for each of the {n} images; got shape {array.shape}.")
    array = _integers_or_text(array, what)
    if names is None:
        unique, indices = np.unique(array, return_inverse=True)
        return indices, tuple(str(value) for value in unique)
    names = tuple(names)
    if len(set(names)) < len(names):
        raise DataError(f"the names of the {what} must differ from each other; got {names}.")
    if array.dtype.kind == "U":
        unknown = sorted(set(array.tolist()) - set(names))
        if unknown:
            raise DataError(f"{what} hold {', '.join(unknown[:10])}, not among the names given ({', '.join(names)}).")
        position = {name: i for i, name in enumerate(names)}
        return np.array([position[text] for text in array.tolist()], dtype=np.int64), names
    if array.min() < 0 or array.max() >= len(names):
        raise DataError(
            f"{what} run from {array.min()} to {array.max()}, but there are {len(names)} names, "
            f"so they must run from 0 to {len(names) - 1}."
        )
    return array, names


def _integers_or_text(array: np.ndarray, what: str) -> np.ndarray:
    if array.dtype.kind == "O" and all(isinstance(value, str) for value in array):
        return array.astype(str)
    if array.dtype.kind == "U":
        return array
    if array.dtype.kind in "iub" or (array.dtype.kind == "f" and (array == np.rint(array)).all()):
        return array.astype(np.int64)
    strange = array[array != np.rint(array)][0] if array.dtype.kind == "f" else array.dtype
    raise DataError(f"{what} must be whole numbers or text, one kind throughout; got {strange}.")


@dataclass(frozen=True, slots=True)
class ArrayImage:
    """One row of an array that some file holds."""

    images: ArrayFile
    row: int

    @property
    def path(self) -> str:
        return f"{self.images.file}[{self.images.key}{self.images.first + self.row}]"

    def stamp(self) -> Stamp:
        of_file = file_stamp(self.images.file)
        return Stamp(f"{of_file.text}|{self.images.key}|{self.images.first + self.row}", of_file.changed_ns)

    def digest(self) -> str:
        image = np.ascontiguousarray(self.images.array[self.row])
        # The shape too: the bytes of a 2×8 array are those of a 4×4 one.
        return hashlib.blake2b(f"{image.shape}|".encode() + image.tobytes(), digest_size=16).hexdigest()

    def pixels(self, *, size: tuple[int, int] | None, resize: Resize, max_megapixels: float) -> np.ndarray:
        image = np.asarray(self.images.array[self.row])
        colour = np.ascontiguousarray(image) if image.ndim == 3 else np.repeat(image[..., None], 3, axis=2)
        return colour if size is None else resize_images(colour[None], size, resize)[0]


@dataclass(eq=False)
class ArrayFile:
    """An array of `n` images, `(n, height, width)` or `(n, height, width, 3)` uint8, read when pixels are wanted.

    `key` names it inside the file, where there are several; `first` is the file's row that is row 0 here.
    """

    file: Path
    n: int
    read: Callable[[], np.ndarray]
    key: str = ""
    first: int = 0

    @cached_property
    def array(self) -> np.ndarray:
        array = self.read()
        if array.ndim == 4 and array.shape[-1] == 1:
            array = array[..., 0]
        if len(array) != self.n or array.dtype != np.uint8 or (array.ndim != 3 and array.shape[3:] != (3,)):
            raise DataError(
                f"{self.file} was expected to hold {self.n} uint8 images of shape (height, width) or "
                f"(height, width, 3); it holds {array.dtype} {array.shape}. Save the images in that form."
            )
        return array


@dataclass(frozen=True, eq=False)
class LabelledArray:
    """Images with their labels `(n,)` and the official split that they are."""

    images: Sequence[ImageSource]
    labels: np.ndarray
    split: str

    @classmethod
    def of(cls, array: ArrayFile, labels: np.ndarray, split: str) -> LabelledArray:
        """All rows of an array."""
        return cls([ArrayImage(array, row) for row in range(array.n)], labels.astype(np.int64), split)


def index_arrays(
    request: LoadRequest,
    name: str,
    domains: Sequence[str],
    class_names: tuple[str, ...],
    read: Callable[[str], list[LabelledArray]],
    expected: str,
) -> ImageIndex:
    """The domains asked for, or all that are there; labels are checked against the class names.

    `read` gives the arrays of a domain, none where it is not there; `expected` says which files it looks for.
    """
    root = request.folder
    if not root.is_dir():
        raise DataError(f"There is no folder {root} to look for {name} in.")
    wanted = domains if request.domains is None else request.domains
    check_domains(wanted, domains, name)
    found = {domain: arrays for domain in wanted if (arrays := read(domain))}
    missing = [domain for domain in wanted if domain not in found]
    if not found or (missing and request.domains is not None):
        raise DataError(f"There are no files of {some(missing)} in {root}. {expected}")
    parts = [(d, part) for d, arrays in enumerate(found.values()) for part in arrays]
    for _, part in parts:
        _check_labels(part, class_names)
    return ImageIndex(
        name=name,
        root=root,
        sources=[source for _, part in parts for source in part.images],
        labels=np.concatenate([part.labels for _, part in parts]),
        domains=np.repeat([d for d, _ in parts], [len(part.labels) for _, part in parts]),
        class_names=class_names,
        domain_names=tuple(found),
        splits=tuple(part.split for _, part in parts for _ in range(len(part.labels))),
        warnings=(f"{name} in {root} has no files of {some(missing)}.",) if missing else (),
    )


def find_file(root: Path, pattern: str, but_in: Callable[[str], bool]) -> Path | None:
    """The first file of such a name in a folder or at most two below it, but in none that `but_in` refuses by name."""
    for place in (".", "*", "*/*"):
        for path in sorted(root.glob(f"{place}/{pattern}")):
            if not any(but_in(folder.casefold()) for folder in path.relative_to(root).parts[:-1]):
                return path
    return None


def _check_labels(part: LabelledArray, class_names: tuple[str, ...]) -> None:
    where, labels = part.images[0].path if len(part.images) else "an empty file", part.labels
    if labels.shape != (len(part.images),):
        raise DataError(f"{where} and what follows are {len(part.images)} images with labels of shape {labels.shape}.")
    if len(labels) and not (labels.min() >= 0 and labels.max() < len(class_names)):
        raise DataError(
            f"The labels of {where} and what follows run from {labels.min()} to {labels.max()}; there are "
            f"{len(class_names)} classes, so they must run from 0 to {len(class_names) - 1}."
        )


def read_npz(path: Path, split: str) -> LabelledArray | None:
    """Arrays `x_<split>` and `y_<split>` of an `.npz`; None when it has none of that split."""

    def array(name: str) -> np.ndarray | None:
        with reading(path, "an .npz", "it is damaged or holds objects"), np.load(path, allow_pickle=False) as archive:
            return np.asarray(archive[name]) if name in archive.files else None

    def images() -> np.ndarray:
        if (found := array(f"x_{split}")) is None:
            raise DataError(f"{path} has no array x_{split}.")
        return found

    if (labels := array(f"y_{split}")) is None:
        return None
    return LabelledArray.of(ArrayFile(path, len(labels), images, f"x_{split}:"), labels, split)


def read_idx(images: Path, labels: Path, split: str) -> LabelledArray:
    """MNIST's idx files, gzipped or not."""
    of_labels = _idx_array(labels)
    return LabelledArray.of(ArrayFile(images, len(of_labels), partial(_idx_array, images)), of_labels, split)


def _idx_array(path: Path) -> np.ndarray:
    with reading(path, "an idx file of bytes"):
        content = path.read_bytes()
        if path.suffix == ".gz":
            content = gzip.decompress(content)
        zero, kind, dimensions = int.from_bytes(content[:2], "big"), content[2], content[3]
        shape = tuple(np.frombuffer(content, ">u4", dimensions, offset=4).tolist())
        if zero or kind != _IDX_BYTES or len(content) != 4 + 4 * dimensions + int(np.prod(shape)):
            raise ValueError("its header and its length do not agree")
        return np.frombuffer(content, np.uint8, offset=4 + 4 * dimensions).reshape(shape)


def read_usps(path: Path, split: str) -> LabelledArray:
    """USPS as LIBSVM gives it out: bzip2, lines `label 1:value …` with labels from 1 and values from -1 to 1."""
    from sklearn.datasets import load_svmlight_file

    with reading(path, "USPS in LIBSVM's form"):
        values, labels = load_svmlight_file(str(path), n_features=256, zero_based=False)
    images = np.rint((values.toarray() + 1) * 127.5).clip(0, 255).astype(np.uint8).reshape(-1, 16, 16)
    return LabelledArray.of(ArrayFile(path, len(labels), lambda: images), labels - 1, split)


def read_svhn(path: Path, split: str) -> LabelledArray:
    """SVHN's cropped digits in a `.mat`, where the label 10 means 0."""
    from scipy.io import loadmat  # type: ignore[import-untyped]

    def array(name: str) -> np.ndarray:
        with reading(path, "SVHN's .mat"):
            return np.asarray(loadmat(path, variable_names=[name])[name])

    def images() -> np.ndarray:
        return np.ascontiguousarray(array("X").transpose(3, 0, 1, 2))

    labels = array("y").reshape(-1) % 10
    return LabelledArray.of(ArrayFile(path, len(labels), images), labels, split)


def read_cifar_batch(path: Path, split: str) -> LabelledArray:
    """One batch of CIFAR-10's Python version, read by an unpickler that knows data alone."""
    with reading(path, "a file of CIFAR-10"):
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
        if not isinstance(content, dict):
            raise TypeError(f"it holds a {type(content).__name__}, not a dict")
        content = {key.decode() if isinstance(key, bytes) else str(key): value for key, value in content.items()}
    data, labels = content.get("data"), content.get("labels")
    if not isinstance(data, np.ndarray) or data.ndim != 2 or data.shape[1] != 3072 or not isinstance(labels, list):
        raise DataError(
            f"{path} is not a batch of CIFAR-10: it must hold data of shape (n, 3072) and a list of labels."
        )
    images = np.ascontiguousarray(data.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    with reading(path, "a batch of CIFAR-10"):
        numbers = np.array(labels, dtype=np.int64)
    return LabelledArray.of(ArrayFile(path, len(images), lambda: images), numbers, split)


def _rebuild_array(subtype: Any, shape: Any, dtype: Any) -> np.ndarray:
    """What numpy's own `_reconstruct` does for plain arrays."""
    if subtype is not np.ndarray:
        raise pickle.UnpicklingError("an array of another type than numpy's own")
    return np.ndarray.__new__(np.ndarray, shape, dtype)


_ALLOWED: dict[tuple[str, str], Any] = {
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): np.dtype,
    ("numpy.core.multiarray", "_reconstruct"): _rebuild_array,
    ("numpy._core.multiarray", "_reconstruct"): _rebuild_array,
    ("_codecs", "encode"): codecs.encode,  # how Python 3 writes bytes for Python 2
}


class _ArraysOnly(pickle.Unpickler):
    """Numbers, text, bytes, lists, dicts and plain numpy arrays; any other name in the pickle ends the reading."""

    def find_class(self, module: str, name: str) -> Any:
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is not data") from None
