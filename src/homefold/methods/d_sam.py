"""D-SAM: every source domain has its own module that gathers what all stages of the shared backbone see."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn
from torch.nn import functional as F

__all__ = ["AggregationModule", "own_domain"]


class AggregationModule(nn.Module):
    """Nodes along the backbone: a_i = ReLU(conv1×1([s_i, pool(a_{i-1})])), and the average of the last over its pixels.

    Args:
        channels: of the stages' maps s_1, s_2, …
        width: channels of every node.
    """

    def __init__(self, channels: Sequence[int], width: int) -> None:
        super().__init__()
        before = [0] + [width] * (len(channels) - 1)
        self.nodes = nn.ModuleList(
            nn.Conv2d(stage + held, width, 1) for stage, held in zip(channels, before, strict=True)
        )
        for node in self.nodes:
            nn.init.kaiming_normal_(node.weight, nonlinearity="relu")  # type: ignore[arg-type]
            nn.init.zeros_(node.bias)  # type: ignore[arg-type]

    def forward(self, maps: Sequence[torch.Tensor]) -> torch.Tensor:
        """`(n, width)` from maps `(n, c_i, h_i, w_i)`."""
        held: torch.Tensor | None = None
        for node, stage in zip(self.nodes, maps, strict=True):
            given = stage
            if held is not None:
                given = torch.cat([stage, F.adaptive_max_pool2d(held, stage.shape[-2:])], dim=1)
            held = F.relu(node(given))
        assert held is not None
        return held.mean(dim=(2, 3))


def own_domain(outputs: torch.Tensor, domains: torch.Tensor) -> torch.Tensor:
    """Of `outputs: (domains, n, c)` each sample's from the module of its own domain, `(n, c)`.

    Args:
        outputs: of all modules for all samples.
        domains: `(n,)`.
    """
    return outputs[domains, torch.arange(len(domains), device=domains.device)]
