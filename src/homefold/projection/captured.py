"""A whole projection, from features to answers, captured as one CUDA graph.

For a single sample, launching some eighty small kernels takes longer than what they do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from threading import Lock
from weakref import WeakKeyDictionary, ref

import torch

from homefold.manifold import Manifold
from homefold.projection.rules.objective import weights_version
from homefold.runtime.captured_step import CapturedStep, Capturer

__all__ = ["captured_rows"]

RowsFunction = Callable[[Manifold, torch.Tensor], tuple[torch.Tensor, ...]]


class _Captured:
    """One function of rows, for one manifold, held weakly, and one number of rows.

    It is of use as long as `version` is what it was.
    """

    def __init__(self, manifold: Manifold, version: object, function: RowsFunction, capturer: Capturer) -> None:
        self.version = version
        self._manifold, self._function = ref(manifold), function
        self._found: tuple[torch.Tensor, ...] = ()
        self._step = CapturedStep(self._run, manifold.bank_features.device, capturer)
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


# A captured graph keeps the memory of what it computes: a few tens of megabytes for a full tile.
_MOST_KEPT = 4

_known: WeakKeyDictionary[Manifold, dict[Hashable, _Captured]] = WeakKeyDictionary()
_choosing = Lock()


def captured_rows(
    manifold: Manifold, z: torch.Tensor, function: RowsFunction, *, key: Hashable, capturer: Capturer
) -> tuple[torch.Tensor, ...]:
    """`function(manifold, z)`, from the fourth call on by a captured graph of it; the last used captures are kept.

    A manifold whose weights changed or were moved is captured anew. The function must do the same whatever the values,
    and the key holds the settings on which it depends.
    """
    place = (key, len(z), *_modes(z.device))
    version = weights_version((*manifold.parameters(), *manifold.buffers()))
    with _choosing:
        captures = _known.setdefault(manifold, {})
        known = captures.pop(place, None)
        if known is None or known.version != version:
            known = _Captured(manifold, version, function, capturer)
        captures[place] = known
        if len(captures) > _MOST_KEPT:
            del captures[next(iter(captures))]
    return known(z)


def _modes(device: torch.device) -> tuple[Hashable, ...]:
    """Switches of torch's that a captured graph keeps as they were."""
    autocast = torch.get_autocast_dtype(device.type) if torch.is_autocast_enabled(device.type) else None
    return autocast, torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled()
