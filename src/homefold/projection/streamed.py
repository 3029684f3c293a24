"""Searches that stop at a plateau, in a batch that finished rows leave and waiting rows enter.

The batch always has the same number of rows, and every row counts its own steps, so an answer does not depend on when
its row came in or on who was there with it.
"""

from __future__ import annotations

import torch

from homefold.projection.config import ProjectionConfig
from homefold.projection.search import Decoder, Search
from homefold.projection.tensor_search import TensorSearch, running
from homefold.tiles import apply_in_tiles

__all__ = ["streamed"]

_STEPS_BETWEEN_LOOKS = 5


def streamed(
    decode: Decoder,
    targets: torch.Tensor,
    starts: torch.Tensor,
    config: ProjectionConfig,
    tile: int,
) -> Search:
    """All samples × all starts, `tile` samples' worth of rows at a time.

    Args:
        decode: G.
        targets: `(n, d)`.
        starts: `(n, s, k)`.
        config: with the stopping rule `plateau`.
        tile: samples whose rows make a batch.
    """
    n, s, k = starts.shape
    rows, width = n * s, tile * s
    search = TensorSearch(decode, width, config, starts, latent_dim=k, feature_dim=targets.shape[1])
    sizes = [term.shape[1:].numel() for term in search.target_terms(targets[:1])]

    def side_by_side(part: torch.Tensor) -> torch.Tensor:
        return torch.cat([term.view(len(part), -1) for term in search.target_terms(part)], dim=1)

    terms = apply_in_tiles(side_by_side, targets, tile).split(sizes, dim=1)
    queue = starts.reshape(rows, k)
    found, steps = queue.clone(), torch.zeros(rows, dtype=torch.long, device=starts.device)
    before, after = (queue.new_zeros(rows) for _ in range(2))

    def enter(slots: torch.Tensor, chosen: torch.Tensor) -> None:
        samples = chosen // s
        shaped = tuple(
            term[samples].view(len(chosen), *held.shape[1:]) for term, held in zip(terms, search.targets, strict=True)
        )
        search.place(slots, shaped, queue[chosen])

    # Places that have no row of their own repeat the last one: its results are the same and are written once more.
    holds = torch.arange(width, device=starts.device).clamp_max(rows - 1)
    enter(torch.arange(width, device=starts.device), holds)
    waiting = width
    new = torch.ones(width, dtype=torch.bool, device=starts.device)
    active = torch.ones(width, dtype=torch.bool, device=starts.device)
    while bool(active.any()):
        if bool(new.any()):
            before[holds[new]] = search.loss(search.state["u"])[new]
            new[:] = False
        for _ in range(_STEPS_BETWEEN_LOOKS):
            search.step()
        finished = active & ~running(config, search.state)
        if not bool(finished.any()):
            continue
        slots = finished.nonzero().flatten()
        found[holds[slots]] = search.state["chosen"][slots]
        steps[holds[slots]] = search.state["taken"][slots]
        after[holds[slots]] = search.state["best"][slots]
        active[slots] = False
        slots = slots[: max(0, rows - waiting)]
        if len(slots):
            holds[slots] = torch.arange(waiting, waiting + len(slots), device=starts.device)
            waiting += len(slots)
            enter(slots, holds[slots])
            active[slots], new[slots] = True, True
    return Search(found.view(n, s, k), steps.view(n, s), before.view(n, s), after.view(n, s))
