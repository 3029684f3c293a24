"""In which order, and how many together, target images arrive where answers depend on those before."""

from __future__ import annotations

import torch

from homefold.runtime.seeding import generator

__all__ = ["even_batches", "stream_order"]


def stream_order(n: int, seed: int) -> torch.Tensor:
    """In which order n target images arrive: shuffled, since datasets lie sorted by class and streams do not."""
    return torch.randperm(n, generator=generator(seed, "target stream"))


def even_batches(rows: torch.Tensor, batch_size: int) -> list[torch.Tensor]:
    """`rows: (n,)` in the fewest batches of at most `batch_size`, all of nearly one size: none is left over.

    >>> [len(batch) for batch in even_batches(torch.arange(9), 4)]
    [3, 3, 3]
    """
    return list(rows.tensor_split(max(1, -(-len(rows) // batch_size)))) if len(rows) else []
