"""The search as CUDA graphs: a chunk of steps is captured once and replayed, with no Python and no waiting between.

All that a search remembers lies in tensors of fixed size that a step reads and writes in place, its step count too, so
that a replay goes on where the last one ended. The arithmetic of an MLP decoder is compiled; other decoders are
captured as they are, autograd included.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from threading import Lock
from weakref import WeakKeyDictionary, ref

import torch
from torch import nn

from homefold.config.search import SearchConfig
from homefold.projection.engines.engine import Engine, Search
from homefold.projection.rules.objective import (
    Decoder,
    Measure,
    loss_and_gradient,
    mlp_decoder,
    mlp_loss_and_gradient,
    weights_version,
)
from homefold.projection.rules.steps import step_rule
from homefold.projection.rules.stopping import stopping_rule
from homefold.runtime.triton_ready import why_no_triton

__all__ = ["COMPILED", "TensorSearch", "compiled"]

State = tuple[torch.Tensor, ...]
"""Steps so far `(1,)`, u, what the step rule remembers, what the stopping rule remembers."""

_CHUNK = 50
_WARM_UP = 3
_MOST_KEPT = 8


def _autograd_measure(decode: Decoder) -> Measure:
    """L_S and its gradient by autograd. A module is held weakly: what is remembered with it must not keep it alive."""
    held = ref(decode) if isinstance(decode, nn.Module) else (lambda: decode)

    def measure(u: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decoder = held()
        assert decoder is not None
        return loss_and_gradient(decoder, u, targets)

    return measure


class TensorSearch:
    """The search of a fixed number of rows whose whole memory is tensors that stay where they are.

    Of `targets: (samples, d)` and `starts: (rows, k)` it takes shape, type and device. The arithmetic of an MLP decoder
    is compiled if `compile` says so.
    """

    def __init__(
        self,
        decode: Decoder,
        config: SearchConfig,
        targets: torch.Tensor,
        starts: torch.Tensor,
        *,
        compile: bool = False,
    ) -> None:
        self.steps = config.steps
        self.step_rule, self.stopping_rule = step_rule(config), stopping_rule(config)
        self.decoder = mlp_decoder(decode)
        rows = len(starts)
        if self.decoder is not None:
            measure: Measure = partial(mlp_loss_and_gradient, self.decoder)
            self.targets: State = (starts.new_zeros(rows, self.decoder.widths[-1]), starts.new_zeros(rows))
        else:
            measure = _autograd_measure(decode)
            self.targets = (starts.new_zeros(rows, targets.shape[1]),)
        self.measure = measure
        self.state = self._begin(torch.zeros_like(starts))
        rule, watcher, remembered = self.step_rule, self.stopping_rule, len(self.step_rule.memory(starts))
        self.remembered = remembered
        self.numbers = starts.new_tensor([rule.numbers(step) for step in range(config.steps)])

        def advance(state: State, targets: State, numbers: torch.Tensor) -> State:
            """The state after one more step. numbers: `(steps, m)`, the step rule's for each step."""
            count, u, *memory = state
            loss, gradient = measure(u, *targets)
            # A chunk is warmed up by steps that may lie beyond the last.
            now = numbers.index_select(0, count.clamp(max=len(numbers) - 1)).unbind(1) if numbers.numel() else ()
            u, moved = rule.move(u, gradient, tuple(memory[:remembered]), now)
            return count + 1, u, *moved, *watcher.watch(count, loss, u, tuple(memory[remembered:]))

        self.advance = advance
        if compile and self.decoder is not None:
            self.advance = torch.compile(advance, dynamic=False)
        self.lock = Lock()
        """For whoever shares a search among threads."""
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def _begin(self, starts: torch.Tensor) -> State:
        """The state before the first step from `starts: (rows, k)`."""
        count = torch.zeros(1, dtype=torch.long, device=starts.device)
        return count, starts, *self.step_rule.memory(starts), *self.stopping_rule.memory(starts)

    def reset(self, targets: torch.Tensor, starts: torch.Tensor) -> None:
        """Begin at `starts: (rows, k)`, whose targets are `targets: (samples, d)`, each for as many rows."""
        repeats = len(starts) // max(len(targets), 1)
        terms = self.decoder.target_terms(targets) if self.decoder is not None else (targets,)
        for held, term in zip(self.targets, terms, strict=True):
            held[:] = term.repeat_interleave(repeats, dim=0)
        self._write(self._begin(starts))

    def _write(self, state: State) -> None:
        for held, value in zip(self.state, state, strict=True):
            held.copy_(value)

    def step(self) -> None:
        """One step of all rows, in place."""
        held = {x.untyped_storage().data_ptr() for x in self.state}
        after = self.advance(self.state, self.targets, self.numbers)
        # What was another's value before the step must not be overwritten before it is read.
        self._write(tuple(x.clone() if x.untyped_storage().data_ptr() in held else x for x in after))

    def run(self, graphs: bool) -> None:
        """All steps; `graphs` captures them once and replays them."""
        left = self.steps
        while left > 0:
            chunk = min(_CHUNK, left)
            if graphs:
                self._graph(chunk).replay()
            else:
                for _ in range(chunk):
                    self.step()
            left -= chunk

    def _graph(self, chunk: int) -> torch.cuda.CUDAGraph:
        if chunk not in self._graphs:
            kept = tuple(value.clone() for value in self.state)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP):
                    self.step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(chunk):
                    self.step()
            self._write(kept)
            self._graphs[chunk] = graph
        return self._graphs[chunk]

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """u* `(rows, k)` and the steps to it, `(rows,)`."""
        _, u, *memory = self.state
        chosen, steps = self.stopping_rule.result(u, self.steps, tuple(memory[self.remembered :]))
        return chosen.clone(), steps.clone()

    def loss(self, u: torch.Tensor) -> torch.Tensor:
        """The loss `(rows,)` at `u: (rows, k)`."""
        return self.measure(u, *self.targets)[0].clone()


@contextmanager
def _matmul_precision(precision: str) -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


_known: WeakKeyDictionary[nn.Module, dict[object, TensorSearch]] = WeakKeyDictionary()


def _captured(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> TensorSearch:
    """The captured search for these shapes and settings, remembered with the decoder it belongs to."""
    rows = starts.flatten(0, 1)

    def capture() -> TensorSearch:
        return TensorSearch(decode, config, targets, rows, compile=not why_no_triton(starts.device))

    if not isinstance(decode, nn.Module):
        return capture()
    version = weights_version(decode.parameters())
    key = (replace(config, engine="auto", tile=0), starts.shape[:2], starts.dtype, starts.device, version)
    known = _known.setdefault(decode, {})
    if key not in known:
        while len(known) >= _MOST_KEPT:
            known.pop(next(iter(known)))
        known[key] = capture()
    return known[key]


def compiled(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> Search:
    """All samples × all starts, replayed from CUDA graphs."""
    n, s, k = starts.shape
    rows = starts.reshape(n * s, k)
    with torch.no_grad(), _matmul_precision(config.resolved_precision):
        search = _captured(decode, targets, starts, config)
        with search.lock:
            search.reset(targets, rows)
            before = search.loss(rows)
            search.run(graphs=True)
            chosen, steps = search.result()
            after = search.loss(chosen)
    return Search(chosen.view(n, s, k), steps.view(n, s), before.view(n, s), after.view(n, s))


COMPILED = Engine("compiled", compiled, device_type="cuda")
