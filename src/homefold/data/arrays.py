"""Arrays that a person already has in memory, brought into the form the stages work on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from homefold.data.dataset import DomainDataset
from homefold.errors import DataError

__all__ = ["dataset_from_arrays", "images_from_array", "without_torch"]

_NUMPY_HAS = (torch.float16, torch.float32, torch.float64)


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
        class_names: one name a class.
        domain_names: one name a domain.
        name: what the dataset is called in records.
    """
    pixels = images_from_array(images)
    label_indices, classes = _indices_and_names(labels, class_names, "labels", len(pixels))
    domain_indices, origins = _indices_and_names(domains, domain_names, "domains", len(pixels))
    return DomainDataset(
        images=pixels,
        labels=label_indices,
        domains=domain_indices,
        class_names=classes,
        domain_names=origins,
        name=name,
    )


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
    if not isinstance(values, torch.Tensor):
        return values
    if values.layout != torch.strided:
        raise DataError(f"a tensor of layout {values.layout} cannot be used; make it dense with to_dense().")
    if values.is_meta:
        raise DataError("a tensor on the meta device holds no values; move it to the CPU before it is given.")
    values = values.detach().cpu().resolve_conj().resolve_neg()
    return (values.float() if values.is_floating_point() and values.dtype not in _NUMPY_HAS else values).numpy()


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
        return _positions(array, names, what), names
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


def _positions(texts: np.ndarray, names: tuple[str, ...], what: str) -> np.ndarray:
    position = {name: i for i, name in enumerate(names)}
    unknown = sorted(set(texts.tolist()) - set(names))
    if unknown:
        raise DataError(f"{what} hold {', '.join(unknown[:10])}, not among the names given ({', '.join(names)}).")
    return np.array([position[text] for text in texts.tolist()], dtype=np.int64)
