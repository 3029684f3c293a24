"""CIFAR's pickles of arrays, read without running anything that a pickle could ask for."""

from __future__ import annotations

import codecs
import pickle
from pathlib import Path
from typing import Any

import numpy as np

from homefold.data.paths import reading

__all__ = ["read_array_pickle"]


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


def read_array_pickle(path: Path) -> dict[str, Any]:
    """A pickled dict of arrays and lists, its keys as text.

    Args:
        path: the file.
    """
    with reading(path, "a file of CIFAR-10"):
        with path.open("rb") as file:
            content = _ArraysOnly(file, encoding="bytes").load()
        if not isinstance(content, dict):
            raise TypeError(f"it holds a {type(content).__name__}, not a dict")
        return {key.decode() if isinstance(key, bytes) else str(key): value for key, value in content.items()}
