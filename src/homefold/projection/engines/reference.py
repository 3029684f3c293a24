"""One sample and one start at a time, the whole history kept: slow and obvious."""

from __future__ import annotations

import torch

from homefold.config.search import SearchConfig
from homefold.projection.engines.engine import Engine, Search
from homefold.projection.rules.objective import Decoder, cosine_distance, loss_and_gradient
from homefold.projection.rules.steps import step_rule, walk
from homefold.projection.rules.stopping import stopping_rule

__all__ = ["REFERENCE", "loss_curve", "reference"]


def loss_curve(
    decode: Decoder, target: torch.Tensor, start: torch.Tensor, config: SearchConfig
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
    steps = list(
        walk(step_rule(config), lambda u: loss_and_gradient(decode, u, target[None]), start[None], config.steps)
    )
    if not steps:
        return target.new_empty(0), start.new_empty(0, len(start))
    losses, latents = zip(*steps, strict=True)
    return torch.cat(losses), torch.cat(latents)


def reference(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> Search:
    """The search, whose whole curve is there before the stopping rule sees it. See `SearchFunction`."""
    n, s, _ = starts.shape
    chosen = starts.clone()
    steps = torch.zeros(n, s, dtype=torch.long, device=starts.device)
    before, after = torch.zeros_like(starts[..., 0]), torch.zeros_like(starts[..., 0])
    for i in range(n):
        for j in range(s):
            losses, latents = loss_curve(decode, targets[i], starts[i, j], config)
            taken = _steps_to_answer(losses, latents, starts[i, j], config)
            steps[i, j] = taken
            chosen[i, j] = latents[taken - 1] if taken else starts[i, j]
            before[i, j] = cosine_distance(decode(starts[i, j, None]), targets[i, None])[0]
            after[i, j] = cosine_distance(decode(chosen[i, j, None]), targets[i, None])[0]
    return Search(chosen, steps, before, after)


def _steps_to_answer(losses: torch.Tensor, latents: torch.Tensor, start: torch.Tensor, config: SearchConfig) -> int:
    """How many steps of a stored search lead to u*."""
    rule = stopping_rule(config)
    memory = rule.memory(start[None])
    for step, (loss, after) in enumerate(zip(losses[:, None].unbind(), latents[:, None].unbind(), strict=True)):
        memory = rule.watch(step, loss, after, memory)
    last = latents[-1:] if len(latents) else start[None]
    return int(rule.result(last, len(losses), memory)[1])


REFERENCE = Engine("reference", reference, row_by_row=True)
