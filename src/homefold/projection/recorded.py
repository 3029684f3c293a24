"""A whole projection, from features to answers, recorded as one CUDA graph.

For a single sample, launching some eighty small kernels takes longer than what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from weakref import WeakKeyDictionary, ref

import torch

from homefold.manifold import Manifold
from homefold.projection.rules.objective import weights_version
from homefold.runtime.captured_step import CapturedStep, Recorder

__all__ = ["recorded_rows"]

RowsFunction = Callable[[Manifold, torch.Tensor], tuple[torch.Tensor, ...]]


class _Recording:
    """One function of rows, for one manifold, held weakly, and one number of rows.

    It is of use as long as `version` is what it was.
    """

    def __init__(self, manifold: Manifold, version: object, function: RowsFunction, recorder: Recorder) -> None:
        self.version = version
        self._manifold, self._function = ref(manifold), function
        self._found: tuple[torch.Tensor, ...] = ()
        self._step = CapturedStep(self._run, manifold.bank_features.device, recorder)
        # Inputs and results lie in the same memory for every call.
        self._lock = Lock()

    def __call__(self, z: torch.Tensor) -> tuple[torch.Tensor, ...]:
        with self._lock:
            self._step(z)
            return tuple(x.clone() for x in self._found)

    def _run(self, z: torch.Tensor) -> torch.Tensor:
        manifold = self._manifold()
        assert manifold is not None
        self._found = self._function(manifold, z)
        return self._found[0]


# A recording keeps the memory of what it computes: a few tens of megabytes for a full tile.
_MOST_KEPT = 4

_known: WeakKeyDictionary[Manifold, dict[Hashable, _Recording]] = WeakKeyDictionary()
_choosing = Lock()


def recorded_rows(
    manifold: Manifold, z: torch.Tensor, function: RowsFunction, *, key: Hashable, recorder: Recorder
) -> tuple[torch.Tensor, ...]:
    """`function(manifold, z)`, from the fourth call on by a recording of it; the last used recordings are kept.

    A manifold whose weights changed or were moved is recorded anew. The function must do the same whatever the values,
    and the key holds the settings on which it depends.
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
