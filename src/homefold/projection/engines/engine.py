"""What every engine is given, what it returns, and how it says what it cannot run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.objective import Decoder
from homefold.runtime.tiles import fill_tile

__all__ = ["Engine", "Search"]


@dataclass(frozen=True, eq=False)
class Search:
    """The ends of n × s searches.

    Args:
        latents: u* `(n, s, k)`.
        steps: `(n, s)` from the start to u*.
        before: `(n, s)` L_S at the start.
        after: `(n, s)` L_S at u*.
    """

    latents: torch.Tensor
    steps: torch.Tensor
    before: torch.Tensor
    after: torch.Tensor

    def filled(self, size: int) -> Search:
        """The same with its last sample repeated until there are `size`."""
        return Search(*(fill_tile(x, size) for x in (self.latents, self.steps, self.before, self.after)))


@dataclass(frozen=True)
class Engine:
    """A way to run the search, and what it supports.

    Args:
        name: as the settings spell it.
        run: the search for targets `(n, d)` from starts `(n, s, k)`, with the rules that the settings name.
        device_type: the kind of device it needs; None takes any.
        further_reason: why it cannot run this decoder with these settings, beyond that; empty where it can.
        row_by_row: it never looks at another row, so that its tiles need no filling up.
        capturable: it launches nothing from Python that a CUDA graph could not hold.
    """

    name: str
    run: Callable[[Decoder, torch.Tensor, torch.Tensor, SearchConfig], Search]
    device_type: str | None = None
    further_reason: Callable[[Decoder, SearchConfig, torch.device], str] = lambda *asked: ""
    row_by_row: bool = False
    capturable: bool = False

    def why_not(self, decode: Decoder, config: SearchConfig, device: torch.device) -> str:
        """Why it declines this search; empty where it takes it."""
        if self.device_type is not None and device.type != self.device_type:
            return f"it needs a {self.device_type.upper()} device, and this is {device}"
        return self.further_reason(decode, config, device)
