"""The array file of a cache entry: room for all images first, then written through a map, then cut to what is good."""

from __future__ import annotations

import os
import shutil
import zlib
from pathlib import Path
from typing import IO, Any

import numpy as np

from homefold.data.file_locks import lock_shared

__all__ = ["checksum", "create_array", "cut_to", "map_array"]

_AT_ONCE = 1 << 26


def create_array(file: IO[bytes], n: int, size: tuple[int, int]) -> np.memmap[Any, Any]:
    """An array of `n` images in an empty open file, with room on the disk for all of it."""
    shape = (n, *size, 3)
    offset = _write_header(file, shape)
    file.flush()
    _reserve(file, offset + n * size[0] * size[1] * 3)
    return np.memmap(file, dtype=np.uint8, mode="r+", offset=offset, shape=shape)


def _reserve(file: IO[bytes], total: int) -> None:
    """Complain of a full disk now: a mapped page that finds no room later ends the process without a word."""
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, total)
    elif shutil.disk_usage(Path(file.name).parent).free < total:
        raise OSError(28, "No space left on device")
    else:
        file.truncate(total)


def _write_header(file: IO[bytes], shape: tuple[int, ...]) -> int:
    """The head of a `.npy` file; returns its length, which does not depend on how many images there are."""
    file.seek(0)
    np.lib.format.write_array_header_1_0(file, {"descr": "|u1", "fortran_order": False, "shape": shape})
    return file.tell()


def cut_to(file: IO[bytes], rows: int, size: tuple[int, int]) -> None:
    """Keep the first `rows` images of the file, and nothing after them."""
    offset = _write_header(file, (rows, *size, 3))
    file.flush()
    file.truncate(offset + rows * size[0] * size[1] * 3)


def checksum(images: np.ndarray) -> int:
    """CRC-32 of the pixels: it finds every damage that a disk does, at the speed of memory (several GB/s)."""
    pixels, found = images.reshape(-1), 0
    for start in range(0, len(pixels), _AT_ONCE):
        found = zlib.crc32(pixels[start : start + _AT_ONCE].data, found)
    return found


def map_array(path: Path, shape: tuple[int, ...]) -> np.ndarray | None:
    """An array of this shape, whose file cannot be deleted as long as it lives; None if it cannot be used.

    The lock is on the open file, of which the map keeps a copy. Writing to the array never reaches the file.
    """
    try:
        with path.open("rb") as file:
            lock_shared(file)
            if np.lib.format.read_magic(file) != (1, 0):
                return None
            found, fortran_order, dtype = np.lib.format.read_array_header_1_0(file)
            offset = file.tell()
            complete = os.fstat(file.fileno()).st_size == offset + int(np.prod(shape))
            if (found, fortran_order, dtype, complete) != (shape, False, np.dtype(np.uint8), True):
                return None
            return np.memmap(file, dtype=np.uint8, mode="c", offset=offset, shape=shape)
    except (OSError, ValueError):
        return None
