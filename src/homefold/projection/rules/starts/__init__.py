"""Where the search for u* begins. Starts of several kinds lie one after the other, in the order of the kinds' names."""

from __future__ import annotations

from typing import Protocol

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.runtime.registry import Registry

__all__ = ["STARTS", "Start", "start_names", "starting_latents"]


class Start(Protocol):
    """One kind of start."""

    def names(self, config: SearchConfig, manifold: Manifold) -> tuple[str, ...]:
        """What each of them is called; none where the settings ask for none or the manifold has none."""

    def latents(self, count: int, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
        """`(n, count, k)` for `targets: (n, d)`, each row on its own; `count` is that of the names."""


STARTS: Registry[type[Start]] = Registry("start", __name__)


def start_names(config: SearchConfig, manifold: Manifold) -> tuple[str, ...]:
    """What each start is called, in the order in which `starting_latents` lays them out."""
    return tuple(name for kind in STARTS for name in STARTS[kind]().names(config, manifold))


def starting_latents(config: SearchConfig, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
    """Latents to start from, `(n, starts, k)`, for `targets: (n, d)`."""
    counts = {kind: len(STARTS[kind]().names(config, manifold)) for kind in STARTS}
    parts = [STARTS[kind]().latents(count, manifold, targets, seed) for kind, count in counts.items() if count]
    return torch.cat(parts, dim=1)
