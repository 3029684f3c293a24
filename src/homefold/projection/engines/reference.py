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
    decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig
) -> tuple[torch.Tensor, torch.Tensor]:
    """The whole search for `targets: (n, d)`, one of `starts: (n, k)` each, as Algorithm 1 stores it.

    L `(m, n)` is the loss before each step and U `(m, n, k)` the latents after it.
    """
    steps = list(walk(step_rule(config), lambda u: loss_and_gradient(decode, u, targets), starts, config.steps))
    if not steps:
        return targets.new_empty(0, len(starts)), starts.new_empty(0, *starts.shape)
    losses, latents = zip(*steps, strict=True)
    return torch.stack(losses), torch.stack(latents)


def reference(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> Search:
    """The search, whose whole curve is there before the stopping rule sees it."""
    n, s, _ = starts.shape
    rule = stopping_rule(config)
    chosen = torch.empty_like(starts)
    steps = torch.zeros(n, s, dtype=torch.long, device=starts.device)
    before, after = torch.zeros_like(starts[..., 0]), torch.zeros_like(starts[..., 0])
    for i in range(n):
        for j in range(s):
            target, start = targets[i, None], starts[i, j, None]
            losses, latents = loss_curve(decode, target, start, config)
            memory = rule.memory(start)
            for step, (loss, latent) in enumerate(zip(losses, latents, strict=True)):
                memory = rule.watch(step, loss, latent, memory)
            _, taken = rule.result(latents[-1] if len(latents) else start, len(losses), memory)
            steps[i, j] = taken
            chosen[i, j] = latents[taken - 1] if taken else start
            before[i, j] = cosine_distance(decode(start), target)
            after[i, j] = cosine_distance(decode(chosen[i, j, None]), target)
    return Search(chosen, steps, before, after)


REFERENCE = Engine("reference", reference, row_by_row=True)
