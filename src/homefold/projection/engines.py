"""Engines: they run the search. All give the same answer; they differ in how many rows they carry at once.

An engine is a function of a decoder, targets, starts and the settings (`search.Engine`). A new engine is one more such
function in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from homefold.projection.compiled import compiled
from homefold.projection.config import ProjectionConfig
from homefold.projection.fused import fused, why_not_fused
from homefold.projection.mlp import MLPGradient, mlp_decoder
from homefold.projection.objective import cosine_distance
from homefold.projection.search import Decoder, Engine, Search
from homefold.projection.stopping import elbow_index

__all__ = ["ENGINES", "batched", "choose_engine", "gradient_function", "loss_and_gradient", "loss_curve", "reference"]


def loss_and_gradient(decode: Decoder, u: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """L_S `(rows,)` at latents `u: (rows, k)`, and its gradient `(rows, k)`, by autograd."""
    with torch.enable_grad():
        u = u.detach().requires_grad_()
        loss = cosine_distance(decode(u), targets)
        (gradient,) = torch.autograd.grad(loss.sum(), u)
    return loss.detach(), gradient


def gradient_function(
    decode: Decoder, targets: torch.Tensor, repeats: int = 1
) -> Callable[[torch.Tensor], tuple[torch.Tensor, torch.Tensor]]:
    """Latents `(rows, k)` to the loss and its gradient, by hand for an MLP decoder and by autograd for any other.

    Args:
        decode: G.
        targets: `(n, d)`.
        repeats: rows for each target, one after the other.
    """
    decoder = mlp_decoder(decode)
    if decoder is not None and decoder.gram.dtype == targets.dtype:
        return MLPGradient(decoder, targets, repeats)
    rows = targets.repeat_interleave(repeats, dim=0)
    return lambda u: loss_and_gradient(decode, u, rows)


def batched(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: ProjectionConfig) -> Search:
    """All samples × all starts at once.

    Args:
        decode: G, `(rows, k)` to `(rows, d)`, each row on its own.
        targets: `(n, d)`.
        starts: `(n, s, k)`.
        config: step rule, stopping rule and number of steps.
    """
    n, s, k = starts.shape
    u = starts.reshape(n * s, k).clone()
    measure = gradient_function(decode, targets, s)
    step_rule, stopping_rule = config.step_rule(), config.stopping_rule()
    step_rule.reset(u)
    stopping_rule.reset(u)
    before = None
    for step in range(config.steps):
        loss, gradient = measure(u)
        before = loss if before is None else before
        after = step_rule.step(u, gradient)
        stopping_rule.update(step, loss, after)
        u = after
    chosen, steps = stopping_rule.result()
    after, _ = measure(chosen)
    before = after if before is None else before
    return Search(chosen.view(n, s, k), steps.view(n, s), before.view(n, s), after.view(n, s))


def loss_curve(
    decode: Decoder, target: torch.Tensor, start: torch.Tensor, config: ProjectionConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole search for one sample from one start, as Algorithm 1 stores it.

    Args:
        decode: G.
        target: `(d,)`.
        start: `(k,)`.
        config: step rule and number of steps.

    Returns:
        L `(m,)`: the loss before each step; U `(m, k)`: the latent after it.
    """
    u = start[None].clone()
    rule = config.step_rule()
    rule.reset(u)
    losses, latents = [], []
    for _ in range(config.steps):
        loss, gradient = loss_and_gradient(decode, u, target[None])
        u = rule.step(u, gradient)
        losses.append(loss[0])
        latents.append(u[0])
    if not losses:
        return target.new_empty(0), start.new_empty(0, len(start))
    return torch.stack(losses), torch.stack(latents)


def reference(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: ProjectionConfig) -> Search:
    """One sample and one start at a time, the whole history kept: slow and obvious. Same contract as `batched`."""
    n, s, _ = starts.shape
    chosen = starts.clone()
    steps = torch.zeros(n, s, dtype=torch.long, device=starts.device)
    before, after = torch.zeros_like(starts[..., 0]), torch.zeros_like(starts[..., 0])
    for i in range(n):
        for j in range(s):
            losses, latents = loss_curve(decode, targets[i], starts[i, j], config)
            taken = _steps_to_answer(losses, config)
            steps[i, j] = taken
            chosen[i, j] = latents[taken - 1] if taken else starts[i, j]
            before[i, j] = cosine_distance(decode(starts[i, j, None]), targets[i, None])[0]
            after[i, j] = cosine_distance(decode(chosen[i, j, None]), targets[i, None])[0]
    return Search(chosen, steps, before, after)


def _steps_to_answer(losses: torch.Tensor, config: ProjectionConfig) -> int:
    """How many steps of a stored search lead to u*: the stopping rules once more, by looking back."""
    if config.stop == "fixed":
        return len(losses)
    return int(elbow_index(losses[:, None], config.window)) + 1


ENGINES: dict[str, Engine] = {"reference": reference, "batched": batched, "compiled": compiled, "fused": fused}


def choose_engine(decode: Decoder, config: ProjectionConfig, device: torch.device) -> str:
    """The engine that will run: the one that the settings name, or the fastest that can."""
    if config.engine != "auto":
        return config.engine
    if device.type != "cuda":
        return "batched"
    return "compiled" if why_not_fused(decode, config, device) else "fused"
