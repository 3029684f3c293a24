"""Small image files of training images, which a model keeps only where its fit was asked to."""

from __future__ import annotations

import io
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from homefold.data.decoding.image import BadImageError, Resize, decode_image, image_header, resize_images
from homefold.data.picture import picture_file, picture_format
from homefold.errors import ModelFileError

__all__ = ["LARGEST_PX", "Thumbnails"]

LARGEST_PX = 224
"""The longest side of a thumbnail."""
_BYTES_A_PIXEL = 4  # noise takes 3 as PNG
_BYTES_OF_A_HEADER = 4096


@dataclass(frozen=True, eq=False)
class Thumbnails:
    """One image file for each row of `KeptSources.rows`.

    Args:
        files: PNG below 64 px, else JPEG.
        side_px: of every image, which is a square.
    """

    files: tuple[bytes, ...]
    side_px: int

    @staticmethod
    def of(images: np.ndarray, image_size: int) -> Thumbnails:
        """Of `images: (k, image_size, image_size, 3)`, made smaller where they are larger than `LARGEST_PX`."""
        side = _side(image_size)
        return Thumbnails(tuple(picture_file(image) for image in resize_images(images, (side, side))), side)

    def facts(self) -> dict[str, Any]:
        """What a model says of them."""
        return {"images": len(self.files), "side_px": self.side_px, "bytes": sum(map(len, self.files))}

    def tensors(self) -> dict[str, torch.Tensor]:
        """The files one after the other, and where each ends."""
        return {
            "files": torch.from_numpy(np.frombuffer(b"".join(self.files), np.uint8).copy()),
            "ends": torch.from_numpy(np.cumsum([len(file) for file in self.files], dtype=np.int64)),
        }

    @staticmethod
    def from_tensors(tensors: Mapping[str, torch.Tensor], *, count: int, image_size: int) -> Thumbnails:
        """What `tensors` gave of so many images of a model of that size. Headers are read, nothing is decoded."""
        side = _side(image_size)
        files, ends = tensors.get("files"), tensors.get("ends")
        if set(tensors) != {"files", "ends"} or files is None or ends is None:
            raise ModelFileError("the thumbnails should hold files and ends alone.")
        if files.dtype != torch.uint8 or files.ndim != 1 or ends.dtype != torch.int64 or ends.shape != (count,):
            raise ModelFileError(f"the thumbnails should be bytes with {count} ends; their arrays are others.")
        bounds = [0, *ends.tolist()]
        sizes = np.diff(bounds)
        if bounds[-1] != len(files) or not ((sizes > 0) & (sizes <= _most_bytes(side))).all():
            raise ModelFileError(
                f"each thumbnail should take 1 to {_most_bytes(side)} bytes, and all of them the file."
            )
        whole = files.numpy().tobytes()
        found = Thumbnails(tuple(whole[low:high] for low, high in itertools.pairwise(bounds)), side)
        for i, file in enumerate(found.files):
            _require_header(file, f"thumbnail {i}", side)
        return found

    def images(self, image_size: int, resize: Resize) -> np.ndarray:
        """The pixels `(k, image_size, image_size, 3)`."""
        size = (image_size, image_size)
        try:
            decoded = [
                decode_image(io.BytesIO(file), size=size, resize=resize, name=f"thumbnail {i}")
                for i, file in enumerate(self.files)
            ]
        except BadImageError as error:
            raise ModelFileError(f"{error.name} of the model {error.reason}; copy or fit the model again.") from None
        return np.stack(decoded)


def _side(image_size: int) -> int:
    return min(image_size, LARGEST_PX)


def _most_bytes(side: int) -> int:
    return _BYTES_A_PIXEL * side * side + _BYTES_OF_A_HEADER


def _require_header(file: bytes, name: str, side: int) -> None:
    """Refuse what is no image of that size: a small file can unfold to any number of pixels."""
    wanted = (picture_format(side), side, side)
    try:
        found = image_header(io.BytesIO(file), name)
    except BadImageError as error:
        raise ModelFileError(f"{name} of the model {error.reason}.") from None
    if found != wanted:
        told = "{} of {} × {} px"
        raise ModelFileError(f"{name} of the model is {told.format(*found)}; expected {told.format(*wanted)}.")
