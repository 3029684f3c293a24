"""A whole projection, from features to answers, recorded as one CUDA graph.

For a single sample, launching some eighty small kernels takes longer than what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from threading import Lock
from weakref import WeakKeyDictionary, ref

import torch

from homefold.manifold import Manifold
from homefold.projection.rules.objective import weights_version
from homefold.runtime.captured_step import CapturedStep, Recorder

__all__ = ["RowTensors", "recorded_rows"]

RowTensors = tuple[torch.Tensor, ...]
"""Tensors with a row for each sample: `(n, width)` or `(n,)`, numbers that float32 holds exactly."""

RowsFunction = Callable[[Manifold, torch.Tensor], RowTensors]


@dataclass(frozen=True)
class _Layout:
    """How tensors lie beside each other in one."""

    widths: tuple[int, ...]
    flat: tuple[bool, ...]
    dtypes: tuple[torch.dtype, ...]

    @staticmethod
    def of(tensors: RowTensors) -> _Layout:
        widths = tuple(1 if x.ndim == 1 else x.shape[1] for x in tensors)
        return _Layout(widths, tuple(x.ndim == 1 for x in tensors), tuple(x.dtype for x in tensors))

    def apart(self, joined: torch.Tensor) -> RowTensors:
        parts = joined.split(self.widths, dim=1)
        return tuple(
            (part[:, 0] if flat else part).to(dtype)
            for part, flat, dtype in zip(parts, self.flat, self.dtypes, strict=True)
        )


class _Recording:
    """One function of rows, for one manifold and one number of rows.

    Args:
        manifold: held weakly, so that a recording does not keep it alive.
        version: what must not have changed for the recording to be of use.
        function: what is recorded.
        recorder: records.
    """

    def __init__(self, manifold: Manifold, version: object, function: RowsFunction, recorder: Recorder) -> None:
        self.version = version
        self._manifold, self._function = ref(manifold), function
        self._layout: _Layout | None = None
        self._step = CapturedStep(self._joined, manifold.bank_features.device, recorder)
        # Inputs and results lie in the same memory for every call.
        self._lock = Lock()

    def __call__(self, z: torch.Tensor) -> RowTensors:
        with self._lock:
            joined = self._step(z).clone()
        assert self._layout is not None
        return self._layout.apart(joined)

    def _joined(self, z: torch.Tensor) -> torch.Tensor:
        manifold = self._manifold()
        assert manifold is not None
        tensors = self._function(manifold, z)
        self._layout = _Layout.of(tensors)
        return torch.cat([x.float().reshape(len(z), -1) for x in tensors], dim=1)


# A recording keeps the memory of what it computes: a few tens of megabytes for a full tile.
_MOST_KEPT = 4

_known: WeakKeyDictionary[Manifold, dict[Hashable, _Recording]] = WeakKeyDictionary()
_choosing = Lock()


def recorded_rows(
    manifold: Manifold, z: torch.Tensor, function: RowsFunction, *, key: Hashable, recorder: Recorder
) -> RowTensors:
    """`function(manifold, z)`, from the fourth call on by a recording of it; the last used recordings are kept.

    A manifold whose weights changed or were moved is recorded anew.

    Args:
        manifold: what the function works with.
        z: `(n, d)`.
        function: must do the same whatever the values.
        key: the settings on which the function depends.
        recorder: of the device.
    """
    place = (key, len(z), *_modes(z.device))
    version = weights_version((*manifold.parameters(), *manifold.buffers()))
    with _choosing:
        recordings = _known.setdefault(manifold, {})
        known = recordings.pop(place, None)
        if known is None or known.version != version:
            known = _Recording(manifold, version, function, recorder)
        recordings[place] = known
        if len(recordings) > _MOST_KEPT:
            del recordings[next(iter(recordings))]
    return known(z)


def _modes(device: torch.device) -> tuple[Hashable, ...]:
    """Switches of torch's that a recording keeps as they were."""
    autocast = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    return autocast, torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
