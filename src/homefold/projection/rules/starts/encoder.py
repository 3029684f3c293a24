"""The start that the manifold's encoder proposes."""

from __future__ import annotations

import torch

from homefold.config.search import SearchConfig
from homefold.manifold import Manifold
from homefold.projection.rules.starts import STARTS

__all__ = ["EncoderStart"]


@STARTS.named("encoder")
class EncoderStart:
    """E(z), where the manifold has an encoder."""

    def names(self, config: SearchConfig, manifold: Manifold) -> tuple[str, ...]:
        return ("encoder",) if config.encoder_start and manifold.has_encoder else ()

    def latents(self, count: int, manifold: Manifold, targets: torch.Tensor, seed: int) -> torch.Tensor:
        return manifold.encode(targets)[:, None]
