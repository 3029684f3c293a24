"""Decoded images, kept where they serve fastest, handed out as float batches on the device."""

from __future__ import annotations

import warnings

import numpy as np
import torch

__all__ = ["ImageStore"]

_SHARE_OF_FREE_MEMORY = 0.4


class ImageStore:
    """Bytes of all images, in device memory when they fit there, and batches of them as floats in [0, 1].

    Args:
        images: `(n, h, w, 3)` uint8.
        device: where batches are wanted.
    """

    def __init__(self, images: np.ndarray, device: torch.device) -> None:
        with warnings.catch_warnings():
            # Torch has no read-only tensors and warns of memory maps; nothing here ever writes to them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.from_numpy(np.ascontiguousarray(images))
        self.device = device
        if device.type == "cuda":
            free, _ = torch.cuda.mem_get_info(device)
            if tensor.nbytes < _SHARE_OF_FREE_MEMORY * free:
                tensor = tensor.to(device)
        self._bytes = tensor

    def __len__(self) -> int:
        return len(self._bytes)

    @property
    def place(self) -> torch.device:
        """Where the bytes lie, and so where indices are best kept."""
        return self._bytes.device

    def batch(self, indices: torch.Tensor) -> torch.Tensor:
        """`(b, 3, h, w)` floats in [0, 1], channels last, of the images at `indices`."""
        chosen = self._bytes[indices.to(self._bytes.device)]
        if chosen.device != self.device:
            chosen = chosen.to(self.device, non_blocking=True)
        return chosen.permute(0, 3, 1, 2).float().div_(255)
