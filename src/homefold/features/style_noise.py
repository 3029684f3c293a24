"""Styles moved at random (DSU, Li et al. 2022): an image takes on a style that no image of the batch has."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

from homefold.features.style_hook import StyleHook, channel_statistics, with_statistics

__all__ = ["StyleNoise", "move_styles"]


def move_styles(maps: torch.Tensor, steps: torch.Tensor) -> torch.Tensor:
    """Move every channel's mean and deviation by so many times what it varies by among the maps.

    The statistics are constants for the gradient, and no deviation falls below zero: that would turn a channel's
    content round. A map whose steps are all 0 comes out as it was, bit for bit.

    Args:
        maps: `(n, c, h, w)`.
        steps: `(2, n, c)`, for means and for deviations.
    """
    with torch.autocast(maps.device.type, enabled=False):
        own = channel_statistics(maps)
        mean, deviation = own
        mean_spread, deviation_spread = (values.std(0, correction=0) for values in own)
        scale = (deviation + steps[1] * deviation_spread).clamp(min=0) / deviation
        return with_statistics(maps, own, scale, mean + steps[0] * mean_spread)


class StyleNoise(StyleHook):
    """Moves the styles of the maps that some modules give by normal steps, while the network is in training mode.

    Args:
        net: the whole network, whose mode counts.
        modules: whose outputs are moved, each by draws of its own.
        probability: of every sample, each on its own, to be moved.
    """

    def __init__(self, net: nn.Module, modules: Sequence[nn.Module], probability: float) -> None:
        super().__init__(net, modules, "style_noise_layers")
        self._probability = probability

    def changed(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps `(n, c, h, w)` of which about a share of `probability` has styles that moved."""
        count, channels = maps.shape[:2]
        moved = torch.rand(count, 1, device=maps.device) < self._probability
        steps = torch.randn(2, count, channels, device=maps.device)
        return move_styles(maps, torch.where(moved, steps, 0.0))
