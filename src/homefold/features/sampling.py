"""The order in which an epoch visits the training images."""

from __future__ import annotations

import torch

from homefold.config.features import Sampling

__all__ = ["epoch_batches"]


def epoch_batches(
    labels: torch.Tensor, domains: torch.Tensor, batch_size: int, sampling: Sampling, generator: torch.Generator
) -> torch.Tensor:
    """Indices of one epoch's batches, `(batches, batch_size)`; a last incomplete batch is left out.

    Args:
        labels: `(n,)` class of each image, on the CPU.
        domains: `(n,)` domain of each image, on the CPU.
        batch_size: images a batch; at most n.
        sampling: `shuffled` visits every image once; `balanced` fills every batch as evenly as it can with all
            domain × class cells, visiting each cell in shuffled rounds, so small cells come more often.
        generator: on the CPU.
    """
    n = len(labels)
    batch_size = min(batch_size, n)
    batches = n // batch_size
    if sampling == "shuffled":
        return torch.randperm(n, generator=generator)[: batches * batch_size].view(batches, batch_size)
    cells = torch.unique(domains * (int(labels.max()) + 1) + labels, return_inverse=True)[1]
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
