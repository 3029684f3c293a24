"""Engines: they run the search. All give the same answer; they differ in how many rows they carry at once.

An engine is a function of a decoder, targets, starts and the settings; it returns u* and the steps taken for every
sample and start. A new engine is one more such function in `ENGINES`.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from homefold.projection.config import ProjectionConfig
from homefold.projection.objective import cosine_distance
from homefold.projection.stopping import elbow_index

__all__ = ["ENGINES", "Decoder", "batched", "loss_and_gradient", "loss_curve", "reference"]

Decoder = Callable[[torch.Tensor], torch.Tensor]
Engine = Callable[[Decoder, torch.Tensor, torch.Tensor, ProjectionConfig], tuple[torch.Tensor, torch.Tensor]]


def loss_and_gradient(decode: Decoder, u: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """L_S `(rows,)` at latents `u: (rows, k)`, and its gradient `(rows, k)`."""
    with torch.enable_grad():
        u = u.detach().requires_grad_()
        loss = cosine_distance(decode(u), targets)
        (gradient,) = torch.autograd.grad(loss.sum(), u)
    return loss.detach(), gradient


def batched(
    decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: ProjectionConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """All samples × all starts in one graph.

    Args:
        decode: G, `(rows, k)` to `(rows, d)`, each row on its own.
        targets: `(n, d)`.
        starts: `(n, s, k)`.
        config: step rule, stopping rule and number of steps.

    Returns:
        u* `(n, s, k)`, and the steps that lead to it, `(n, s)`.
    """
    n, s, k = starts.shape
    u = starts.reshape(n * s, k).clone()
    rows = targets.repeat_interleave(s, dim=0)
    step_rule, stopping_rule = config.step_rule(), config.stopping_rule()
    step_rule.reset(u)
    stopping_rule.reset(u)
    for step in range(config.steps):
        loss, gradient = loss_and_gradient(decode, u, rows)
        after = step_rule.step(u, gradient)
        stopping_rule.update(step, loss, u, after)
        u = after
        if stopping_rule.finished():
            break
    chosen, steps = stopping_rule.result()
    return chosen.view(n, s, k), steps.view(n, s)


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


def reference(
    decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: ProjectionConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """One sample and one start at a time, the whole history kept: slow and obvious. Same contract as `batched`."""
    n, s, _ = starts.shape
    chosen = starts.clone()
    steps = torch.zeros(n, s, dtype=torch.long, device=starts.device)
    for i in range(n):
        for j in range(s):
            losses, latents = loss_curve(decode, targets[i], starts[i, j], config)
            taken = _steps_to_answer(losses, config)
            steps[i, j] = taken
            chosen[i, j] = latents[taken - 1] if taken else starts[i, j]
    return chosen, steps


def _steps_to_answer(losses: torch.Tensor, config: ProjectionConfig) -> int:
    """How many steps of a stored search lead to u*: the stopping rules once more, by looking back."""
    if config.stop == "fixed":
        return len(losses)
    if config.stop == "elbow":
        return int(elbow_index(losses[:, None], config.window)) + 1
    lowest, mark, since = 0, float("inf"), 0
    for i, loss in enumerate(losses.tolist()):
        if loss < losses[lowest]:
            lowest = i
        since = 0 if loss < mark - config.tolerance else since + 1
        mark = loss if since == 0 else mark
        if since >= config.patience:
            break
    return lowest


ENGINES: dict[str, Engine] = {"reference": reference, "batched": batched}
