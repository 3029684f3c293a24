"""Engines: they run the search. All give the same answer; they differ in how many rows they carry at once.

What an engine declines goes to the next one. A new engine is one more `Engine`, with its place in `ENGINES`.
"""

from __future__ import annotations

import torch

from homefold.config.search import SearchConfig
from homefold.errors import ConfigError
from homefold.projection.engines.batched import BATCHED
from homefold.projection.engines.compiled import COMPILED
from homefold.projection.engines.engine import Engine, Search
from homefold.projection.engines.fused import FUSED
from homefold.projection.engines.reference import REFERENCE
from homefold.projection.rules.objective import Decoder

__all__ = ["ENGINES", "Engine", "Search", "choose_engine"]

ENGINES: dict[str, Engine] = {engine.name: engine for engine in (FUSED, COMPILED, BATCHED, REFERENCE)}
"""Fastest first."""


def choose_engine(decode: Decoder, config: SearchConfig, device: torch.device) -> str:
    """The first engine that takes the search: of all of them, or of the one that the settings name."""
    reason = ""
    for name in ENGINES if config.engine == "auto" else (config.engine,):
        reason = ENGINES[name].why_not(decode, config, device)
        if not reason:
            return name
    raise ConfigError(f"the {name} engine cannot run: {reason}. Choose search.engine=auto.")
