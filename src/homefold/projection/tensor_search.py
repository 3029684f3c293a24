"""A search of a fixed number of rows whose whole memory is tensors of fixed size: what a CUDA graph can replay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from threading import Lock
from weakref import ref

import torch
from torch import nn

from homefold.projection.config import ProjectionConfig
from homefold.projection.mlp import MLPDecoder, mlp_decoder, mlp_loss_and_gradient
from homefold.projection.objective import Measure, cosine_distance
from homefold.projection.search import Decoder

__all__ = ["TensorSearch"]

State = dict[str, torch.Tensor]

_BLOCK = 50
_WARM_UP = 3


def _autograd_measure(decode: Decoder) -> Measure:
    """L_S and its gradient by autograd. A module is held weakly: what is remembered with it must not keep it alive."""
    held = ref(decode) if isinstance(decode, nn.Module) else (lambda: decode)

    def measure(u: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        decoder = held()
        assert decoder is not None
        with torch.enable_grad():
            u = u.detach().requires_grad_()
            loss = cosine_distance(decoder(u), targets)
            (gradient,) = torch.autograd.grad(loss.sum(), u)
        return loss.detach(), gradient

    return measure


def _move(config: ProjectionConfig, state: State, gradient: torch.Tensor) -> State:
    """u after the step, and what the step rule remembers; see `steps`."""
    u = state["u"]
    if config.step == "gradient":
        return {"u": u - config.rate * gradient}
    if config.step == "normalised":
        length = gradient.square().sum(1, keepdim=True).sqrt().clamp_min(1e-12)
        relative = gradient * (u.square().sum(1, keepdim=True).sqrt() / length)
        velocity = config.momentum * state["mean"] + relative
        return {"u": u - config.rate * (relative + config.momentum * velocity), "mean": velocity}
    mean = 0.9 * state["mean"] + 0.1 * gradient
    square = 0.999 * state["square"] + 0.001 * gradient.square()
    # Products, not powers: a power may round differently from one place of a tensor to another.
    faded_mean, faded_square = 0.9 * state["faded_mean"], 0.999 * state["faded_square"]
    scale = (square / (1 - faded_square)[:, None]).sqrt() + 1e-8
    moved = u - (config.rate / (1 - faded_mean))[:, None] * mean / scale
    return {"u": moved, "mean": mean, "square": square, "faded_mean": faded_mean, "faded_square": faded_square}


def _watch(config: ProjectionConfig, state: State, loss: torch.Tensor, after: torch.Tensor) -> State:
    """What the stopping rule remembers once the step measured `loss` and went to `after`; see `stopping`."""
    if config.stop == "fixed":
        return {}
    step, half = state["count"], config.window // 2
    losses = torch.cat([state["losses"][1:], loss[None]])
    latents = torch.cat([state["latents"][1:], after[None]])
    total = losses[0]
    for i in range(1, config.window):
        total = total + losses[i]
    smooth = total / config.window
    bend = smooth - 2 * state["newer"] + state["older"]
    better = (bend > state["best"]) & (step >= config.window + 1)
    return {
        "losses": losses,
        "latents": latents,
        "older": state["newer"],
        "newer": smooth,
        "best": torch.where(better, bend, state["best"]),
        "taken": torch.where(better, (step - half).long(), state["taken"]),
        "chosen": torch.where(better[:, None], latents[0], state["chosen"]),
    }


def _advance(
    measure: Measure,
    config: ProjectionConfig,
    state: State,
    targets: tuple[torch.Tensor, ...],
) -> State:
    """What changes in `state` with one step."""
    loss, gradient = measure(state["u"], *targets)
    moved = _move(config, state, gradient)
    return {**moved, **_watch(config, state, loss, moved["u"]), "count": state["count"] + 1}


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
        config: ProjectionConfig,
        like: torch.Tensor,
        *,
        latent_dim: int,
        feature_dim: int,
        compile: bool = False,
    ) -> None:
        self.config = config
        self.decoder: MLPDecoder | None = mlp_decoder(decode)
        zeros = partial(torch.zeros, dtype=like.dtype, device=like.device)
        if self.decoder is not None:
            self.measure: Measure = partial(mlp_loss_and_gradient, self.decoder)
            self.targets: tuple[torch.Tensor, ...] = (zeros(rows, self.decoder.widths[-1]), zeros(rows))
        else:
            self.measure = _autograd_measure(decode)
            self.targets = (zeros(rows, feature_dim),)
        self.advance: Callable[[State, tuple[torch.Tensor, ...]], State] = partial(_advance, self.measure, config)
        if compile and self.decoder is not None:
            self.advance = torch.compile(self.advance, dynamic=False)
        self.state: State = {"u": zeros(rows, latent_dim), "count": zeros(rows)}
        if config.step != "gradient":
            self.state["mean"] = zeros(rows, latent_dim)
        if config.step == "adam":
            self.state |= {"square": zeros(rows, latent_dim), "faded_mean": zeros(rows), "faded_square": zeros(rows)}
        if config.stop == "elbow":
            self.state |= {name: zeros(rows) for name in ("best", "newer", "older")}
            self.state |= {"chosen": zeros(rows, latent_dim), "taken": zeros(rows).long()}
            self.state["losses"] = zeros(config.window, rows)
            self.state["latents"] = zeros(config.window // 2 + 2, rows, latent_dim)
        self.lock = Lock()
        """For whoever shares a search among threads."""
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}

    def reset(self, targets: torch.Tensor, starts: torch.Tensor) -> None:
        """Begin at `starts: (rows, k)`, whose targets are `targets: (samples, d)`, each for as many rows."""
        repeats = len(starts) // max(len(targets), 1)
        terms = self.decoder.target_terms(targets) if self.decoder is not None else (targets,)
        for held, term in zip(self.targets, terms, strict=True):
            held[:] = term.repeat_interleave(repeats, dim=0)
        begin: dict[str, torch.Tensor | float] = {"u": starts, "chosen": starts, "best": -torch.inf, "taken": 1}
        begin |= {"faded_mean": 1, "faded_square": 1}
        for name, value in self.state.items():
            value[:] = begin.get(name, 0)

    def step(self) -> None:
        """One step of all rows, in place."""
        for name, value in self.advance(self.state, self.targets).items():
            self.state[name].copy_(value)

    def run(self, graphs: bool) -> None:
        """All steps; `graphs` records them once and replays them."""
        left = self.config.steps
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
            kept = {name: value.clone() for name, value in self.state.items()}
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
            for name, value in kept.items():
                self.state[name].copy_(value)
            self._graphs[block] = graph
        return self._graphs[block]

    def result(self) -> tuple[torch.Tensor, torch.Tensor]:
        """u* `(rows, k)` and the steps to it, `(rows,)`."""
        if self.config.stop == "fixed":
            u = self.state["u"].clone()
            return u, torch.full((len(u),), self.config.steps, dtype=torch.long, device=u.device)
        return self.state["chosen"].clone(), self.state["taken"].clone()

    def loss(self, u: torch.Tensor) -> torch.Tensor:
        """The loss `(rows,)` at `u: (rows, k)`."""
        return self.measure(u, *self.targets)[0].clone()
