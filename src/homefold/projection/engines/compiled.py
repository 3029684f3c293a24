"""The search as CUDA graphs: a block of steps is recorded once and replayed, with no Python and no waiting between.

All that a search remembers lies in tensors of fixed size that a step reads and writes in place, its step count too, so
that a replay goes on where the last one ended. The arithmetic of an MLP decoder is compiled; other decoders are
recorded as they are, autograd included.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from weakref import WeakKeyDictionary

import torch
from torch import nn

from homefold.config.search import SearchConfig
from homefold.projection.engines.engine import Engine, Search
from homefold.projection.engines.tensor_search import TensorSearch
from homefold.projection.rules.objective import Decoder, weights_version
from homefold.runtime.triton_ready import why_no_triton

__all__ = ["COMPILED", "compiled"]

_MOST_KEPT = 8


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


_known: WeakKeyDictionary[nn.Module, dict[object, TensorSearch]] = WeakKeyDictionary()


def _recorded(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> TensorSearch:
    """The recorded search for these shapes and settings, remembered with the decoder it belongs to."""
    n, s, k = starts.shape

    def record() -> TensorSearch:
        return TensorSearch(
            decode, n * s, config, starts, latent_dim=k, feature_dim=targets.shape[1],
            compile=not why_no_triton(starts.device),
        )  # fmt: skip

    if not isinstance(decode, nn.Module):
        return record()
    version = weights_version(decode.parameters())
    key = (replace(config, engine="auto", tile=0), n, s, starts.dtype, starts.device, version)
    known = _known.setdefault(decode, {})
    if key not in known:
        while len(known) >= _MOST_KEPT:
            known.pop(next(iter(known)))
        known[key] = record()
    return known[key]


def compiled(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> Search:
    """All samples × all starts, replayed from CUDA graphs. See `SearchFunction`."""
    n, s, k = starts.shape
    rows = starts.reshape(n * s, k)
    with torch.no_grad(), _matmul_precision(config.resolved_precision):
        search = _recorded(decode, targets, starts, config)
        with search.lock:
            search.reset(targets, rows)
            before = search.loss(rows)
            search.run(graphs=True)
            chosen, steps = search.result()
            after = search.loss(chosen)
    return Search(chosen.view(n, s, k), steps.view(n, s), before.view(n, s), after.view(n, s))


COMPILED = Engine("compiled", compiled, device_type="cuda")
