"""Decoded images, kept where they serve fastest, handed out as batches on the device."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

__all__ = ["FeatureStore", "ImageStore", "to_pixels"]

# What training itself needs beside the images is not known beforehand.
_SHARE_LEFT_FREE = 0.3
_LEAST_LEFT_FREE_BYTES = 4 << 30
_BATCHES_AHEAD = 3

_Fetched = tuple[torch.Tensor, torch.cuda.Event | None]
"""A batch on the device, and when it is there; None where nothing has to be waited for."""


def to_pixels(images: torch.Tensor) -> torch.Tensor:
    """Bytes `(b, h, w, 3)` as floats `(b, 3, h, w)` in [0, 1], channels last."""
    return images.permute(0, 3, 1, 2).float().div_(255)


class ImageStore:
    """Bytes of all images, in device memory when they fit there; otherwise batches are copied ahead of their use.

    Args:
        images: `(n, h, w, 3)` uint8, in memory or mapped from a file.
        device: where batches are wanted.
        resident: keep all of them on the device; None decides by how much of its memory is free.
    """

    def __init__(self, images: np.ndarray, device: torch.device, *, resident: bool | None = None) -> None:
        with warnings.catch_warnings():
            # Torch has no read-only tensors and warns of memory maps; nothing here ever writes to them.
            warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
            tensor = torch.from_numpy(np.ascontiguousarray(images))
        self.device = device
        self.resident = _fits(tensor, device) if resident is None else resident
        self._bytes = tensor.to(device) if self.resident else tensor
        self._fetch: _Fetch | None = None

    def batch(self, indices: torch.Tensor) -> torch.Tensor:
        """`(b, 3, h, w)` floats in [0, 1], channels last, of the images at `indices`."""
        # Copies whole rows, where plain indexing on a CPU goes byte by byte.
        chosen = self._bytes.index_select(0, indices.to(self._bytes.device))
        if chosen.device != self.device:
            chosen = chosen.to(self.device, non_blocking=True)
        return to_pixels(chosen)

    def batches(self, order: torch.Tensor) -> Iterator[torch.Tensor]:
        """The bytes `(b, h, w, 3)` of one batch after the other, on the device. order: `(batches, b)` indices."""
        if self.resident:
            yield from (self._bytes[indices] for indices in order.to(self.device))
            return
        # One for all epochs: another stream would have memory of its own.
        self._fetch = fetch = self._fetch or _Fetch(self._bytes, self.device)
        ahead: deque[Future[_Fetched]] = deque()
        reader = ThreadPoolExecutor(max_workers=1, thread_name_prefix="homefold-batches")
        try:
            for indices in order:
                ahead.append(reader.submit(fetch, indices))
                if len(ahead) > _BATCHES_AHEAD:
                    yield _received(*ahead.popleft().result())
            while ahead:
                yield _received(*ahead.popleft().result())
        finally:
            reader.shutdown(cancel_futures=True)


class FeatureStore:
    """What a frozen backbone makes of all images, `(n, d)` on the device, handed out as images are."""

    def __init__(self, features: torch.Tensor) -> None:
        self.features = features

    def batch(self, indices: torch.Tensor) -> torch.Tensor:
        """`(b, d)` floats of the images at `indices`."""
        return self.features[indices.to(self.features.device)]

    def batches(self, order: torch.Tensor) -> Iterator[torch.Tensor]:
        """One batch `(b, d)` after the other. order: `(batches, b)` indices."""
        yield from (self.features[indices] for indices in order.to(self.features.device))


def _fits(images: torch.Tensor, device: torch.device) -> bool:
    """Whether device memory has room for all images and for training beside them."""
    if device.type != "cuda":
        return device.type == "cpu"
    free, _ = torch.cuda.mem_get_info(device)
    return images.nbytes <= free - max(_LEAST_LEFT_FREE_BYTES, int(_SHARE_LEFT_FREE * free))


def _received(images: torch.Tensor, arrived: torch.cuda.Event | None) -> torch.Tensor:
    """A batch that was on its way; the device, not the caller, waits until it is there."""
    if arrived is not None:
        current = torch.cuda.current_stream(images.device)
        current.wait_event(arrived)
        # It was made on another stream, which must not reuse its memory before this one has read it.
        images.record_stream(current)
    return images


class _Fetch:
    """Gathers batches of `(n, h, w, 3)` bytes and starts their way to the device; called by one thread only."""

    def __init__(self, images: torch.Tensor, device: torch.device) -> None:
        self._images, self._device = images, device
        self._on_cuda = device.type == "cuda"
        self._stream = torch.cuda.Stream(device) if self._on_cuda else None
        # Two buffers: one is filled while the other is being copied.
        self._pinned: deque[tuple[torch.Tensor, torch.cuda.Event]] = deque()

    def __call__(self, indices: torch.Tensor) -> _Fetched:
        if not self._on_cuda:
            return self._images.index_select(0, indices).to(self._device), None
        buffer = self._free_buffer(len(indices))
        torch.index_select(self._images, 0, indices, out=buffer)
        with torch.cuda.device(self._device), torch.cuda.stream(self._stream):
            batch = buffer.to(self._device, non_blocking=True)
            arrived = torch.cuda.Event()
            arrived.record()
        self._pinned.append((buffer, arrived))
        return batch, arrived

    def _free_buffer(self, size: int) -> torch.Tensor:
        if len(self._pinned) >= 2:
            buffer, arrived = self._pinned.popleft()
            arrived.synchronize()
            if len(buffer) == size:
                return buffer
        return torch.empty((size, *self._images.shape[1:]), dtype=torch.uint8, pin_memory=True)
