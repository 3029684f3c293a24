"""Which images an epoch visits and at which learning rate, as plain functions: a resumed run needs no state of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from homefold.config.features import Sampling, Schedule

__all__ = ["epoch_batches", "learning_rate_factor"]

_WARM_UP = 0.3
_START = 1 / 25
_END = 1e-4


def learning_rate_factor(
    schedule: Schedule, step: int, total_steps: int, *, milestones: Sequence[float] = (), decay: float = 0.2
) -> float:
    """What the base rate is multiplied by at `step` of `total_steps`.

    Args:
        schedule: `one-cycle` rises from 1/25 over the first 30 % and falls to 1/10,000, both along a cosine; `cosine`
            falls from 1 towards 0; `step` multiplies by `decay` at each milestone, a fraction of the training;
            `constant` is 1.
        step: from 0.
        total_steps: of the whole training.
        milestones, decay: of `step`.

    >>> [round(learning_rate_factor("one-cycle", s, 101), 4) for s in (0, 30, 100)]
    [0.04, 1.0, 0.0001]
    """
    if schedule == "constant":
        return 1.0
    if schedule == "cosine":
        return (1 + math.cos(math.pi * step / total_steps)) / 2
    if schedule == "step":
        return decay ** sum(step >= milestone * total_steps for milestone in milestones)
    progress = step / max(total_steps - 1, 1)
    if progress <= _WARM_UP:
        low, high, t = _START, 1.0, progress / _WARM_UP
    else:
        low, high, t = 1.0, _END, (progress - _WARM_UP) / (1 - _WARM_UP)
    return high + (low - high) * (1 + math.cos(math.pi * t)) / 2


def epoch_batches(
    labels: torch.Tensor, domains: torch.Tensor, batch_size: int, sampling: Sampling, generator: torch.Generator
) -> torch.Tensor:
    """Indices of one epoch's batches, `(batches, batch_size)`; a last incomplete batch is left out.

    Args:
        labels, domains: `(n,)` class and domain of each image, on the CPU.
        batch_size: images a batch; at most n.
        sampling: `shuffled` visits every image once; `balanced` fills every batch as evenly as it can with all
            domain × class cells, visiting each cell in shuffled rounds, so small cells come more often; `domains` does
            so with the domains.
        generator: on the CPU.
    """
    n = len(labels)
    batch_size = min(batch_size, n)
    batches = n // batch_size
    if sampling == "shuffled":
        return torch.randperm(n, generator=generator)[: batches * batch_size].view(batches, batch_size)
    cells = domains if sampling == "domains" else domains * (int(labels.max()) + 1) + labels
    cells = torch.unique(cells, return_inverse=True)[1]
    members = [torch.nonzero(cells == cell).flatten() for cell in range(int(cells.max()) + 1)]
    count = batches * batch_size
    # Rounds over the cells, each in a new order: any batch_size consecutive entries hold the cells almost evenly.
    rounds = -(-count // len(members))
    order = torch.cat([torch.randperm(len(members), generator=generator) for _ in range(rounds)])[:count]
    chosen = torch.empty(count, dtype=torch.long)
    for cell, indices in enumerate(members):
        places = torch.nonzero(order == cell).flatten()
        passes = -(-len(places) // len(indices))
        drawn = [indices[torch.randperm(len(indices), generator=generator)] for _ in range(passes)]
        if drawn:
            chosen[places] = torch.cat(drawn)[: len(places)]
    return chosen.view(batches, batch_size)
