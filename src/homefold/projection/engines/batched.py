"""All samples × all starts at once, step by step."""

from __future__ import annotations

import torch

from homefold.config.search import SearchConfig
from homefold.projection.engines.engine import Engine, Search
from homefold.projection.rules.objective import Decoder, gradient_function
from homefold.projection.rules.steps import step_rule, walk
from homefold.projection.rules.stopping import stopping_rule

__all__ = ["BATCHED", "batched"]


def batched(decode: Decoder, targets: torch.Tensor, starts: torch.Tensor, config: SearchConfig) -> Search:
    """The search for all rows together."""
    n, s, k = starts.shape
    first = u = starts.reshape(n * s, k).clone()
    measure = gradient_function(decode, targets, s)
    rule = stopping_rule(config)
    memory = rule.memory(first)
    before = None
    for step, (loss, u) in enumerate(walk(step_rule(config), measure, first, config.steps)):
        before = loss if before is None else before
        memory = rule.watch(step, loss, u, memory)
    chosen, steps = rule.result(u, config.steps, memory)
    after, _ = measure(chosen)
    before = after if before is None else before
    return Search(chosen.view(n, s, k), steps.view(n, s), before.view(n, s), after.view(n, s))


BATCHED = Engine("batched", batched)
