"""A search of a fixed number of rows whose whole memory is tensors of fixed size: what a CUDA graph can replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from weakref import ref

import torch
from torch import nn

from homefold.config.search import SearchConfig
from homefold.projection.rules.objective import (
    Decoder,
    Measure,
    MLPDecoder,
    loss_and_gradient,
    mlp_decoder,
    mlp_loss_and_gradient,
)
from homefold.projection.rules.steps import StepRule, step_rule
from homefold.projection.rules.stopping import StoppingRule, stopping_rule

__all__ = ["TensorSearch"]

State = tuple[torch.Tensor, ...]
"""Steps so far `(1,)`, u, what the step rule remembers, what the stopping rule remembers."""

_BLOCK = 50
_WARM_UP = 3


def _autograd_measure(decode: Decoder) -> Measure:
    """L_S and its gradient by autograd. A module is held weakly: what is remembered with it must not keep it alive."""
    held = ref(decode) if isinstance(decode, nn.Module) else (lambda: decode)

    def measure(u: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decoder = held()
        assert decoder is not None
        return loss_and_gradient(decoder, u, targets)

    return measure


def _begin(step_rule: StepRule, stopping_rule: StoppingRule, starts: torch.Tensor) -> State:
    """The state before the first step from `starts: (rows, k)`."""
    count = torch.zeros(1, dtype=torch.long, device=starts.device)
    return count, starts, *step_rule.memory(starts), *stopping_rule.memory(starts)


def _advance(
    measure: Measure,
    step_rule: StepRule,
    stopping_rule: StoppingRule,
    remembered: int,
    state: State,
    targets: State,
    numbers: torch.Tensor,
) -> State:
    """The state after one more step.

    Args:
        measure: the loss and its gradient.
        step_rule: moves.
        stopping_rule: watches.
        remembered: how many tensors the step rule remembers.
        state: before the step.
        targets: what `measure` needs of them.
        numbers: `(steps, m)`, the step rule's for each step.
    """
    count, u, *memory = state
    loss, gradient = measure(u, *targets)
    # A block is warmed up by steps that may lie beyond the last.
    now = numbers.index_select(0, count.clamp(max=len(numbers) - 1)).unbind(1) if numbers.numel() else ()
    u, moved = step_rule.move(u, gradient, tuple(memory[:remembered]), now)
    return count + 1, u, *moved, *stopping_rule.watch(count, loss, u, tuple(memory[remembered:]))


class TensorSearch:
    """The search of a fixed number of rows, in tensors that stay where they are.

    Args:
        decode: G.
        rows: samples × starts.
        config: rules and number of steps.
        like: a tensor of the latents' type and device.
        latent_dim: size of u.
        feature_dim: size of a target.
        compile: compile the arithmetic of an MLP decoder.
    """

    def __init__(
        self,
        decode: Decoder,
        rows: int,
        config: SearchConfig,
        like: torch.Tensor,
        *,
        latent_dim: int,
        feature_dim: int,
        compile: bool = False,
    ) -> None:
        self.steps = config.steps
        self.step_rule, self.stopping_rule = step_rule(config), stopping_rule(config)
        self.decoder: MLPDecoder | None = mlp_decoder(decode)
        zeros = partial(torch.zeros, dtype=like.dtype, device=like.device)
        if self.decoder is not None:
            self.measure: Measure = partial(mlp_loss_and_gradient, self.decoder)
            self.targets: State = (zeros(rows, self.decoder.widths[-1]), zeros(rows))
        else:
            self.measure = _autograd_measure(decode)
            self.targets = (zeros(rows, feature_dim),)
        u = zeros(rows, latent_dim)
        self.remembered = len(self.step_rule.memory(u))
        self.state = _begin(self.step_rule, self.stopping_rule, u)
        self.numbers = torch.tensor(
            [self.step_rule.numbers(step) for step in range(config.steps)], dtype=like.dtype, device=like.device
        )
        self.advance: Callable[[State, State, torch.Tensor], State] = partial(
            _advance, self.measure, self.step_rule, self.stopping_rule, self.remembered
        )
        if compile and self.decoder is not None:
            self.advance = torch.compile(self.advance, dynamic=False)
        self.lock = Lock()
        """For whoever shares a search among threads."""
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def reset(self, targets: torch.Tensor, starts: torch.Tensor) -> None:
        """Begin at `starts: (rows, k)`, whose targets are `targets: (samples, d)`, each for as many rows."""
        repeats = len(starts) // max(len(targets), 1)
        terms = self.decoder.target_terms(targets) if self.decoder is not None else (targets,)
        for held, term in zip(self.targets, terms, strict=True):
            held[:] = term.repeat_interleave(repeats, dim=0)
        self._write(_begin(self.step_rule, self.stopping_rule, starts))

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
        """All steps; `graphs` records them once and replays them."""
        left = self.steps
        while left > 0:
            block = min(_BLOCK, left)
            if graphs:
                self._graph(block).replay()
            else:
                for _ in range(block):
                    self.step()
            left -= block

    def _graph(self, block: int) -> torch.cuda.CUDAGraph:
        if block not in self._graphs:
            kept = tuple(value.clone() for value in self.state)
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UP):
                    self.step()
            torch.cuda.current_stream().wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                for _ in range(block):
                    self.step()
            self._write(kept)
            self._graphs[block] = graph
        return self._graphs[block]

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """u* `(rows, k)` and the steps to it, `(rows,)`."""
        _, u, *memory = self.state
        chosen, steps = self.stopping_rule.result(u, self.steps, tuple(memory[self.remembered :]))
        return chosen.clone(), steps.clone()

    def loss(self, u: torch.Tensor) -> torch.Tensor:
        """The loss `(rows,)` at `u: (rows, k)`."""
        return self.measure(u, *self.targets)[0].clone()
