"""MixStyle (Zhou et al. 2021): inside the network, an image takes on some of another image's style while training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from homefold.features.style_hook import StyleHook, channel_statistics, with_statistics

__all__ = ["MixStyle", "beta_quantiles", "draw_beta", "mix_styles"]

_TABLE_SIZE = 4097


def beta_quantiles(alpha: float) -> torch.Tensor:
    """`(4097,)` quantiles of Beta(α, α) at evenly spaced probabilities from 0 to 1, for `draw_beta`."""
    from scipy.special import betaincinv  # type: ignore[import-untyped]

    return torch.from_numpy(betaincinv(alpha, alpha, np.linspace(0, 1, _TABLE_SIZE))).float()


def draw_beta(uniform: torch.Tensor, quantiles: torch.Tensor) -> torch.Tensor:
    """Uniform numbers in [0, 1) to numbers with the quantiles of a table, between its entries by a straight line.

    Rejection, the usual way to Beta, needs an unknown number of draws, which no recorded step can make.
    """
    position = uniform * (len(quantiles) - 1)
    below = position.long().clamp(max=len(quantiles) - 2)
    return torch.lerp(quantiles[below], quantiles[below + 1], position - below)


def mix_styles(maps: torch.Tensor, partners: torch.Tensor, own_share: torch.Tensor) -> torch.Tensor:
    """Give every map the channel means and deviations λ · its own + (1 − λ) · its partner's.

    The statistics are constants for the gradient. A map with λ = 1 comes out as it was, bit for bit.

    Args:
        maps: `(n, c, h, w)`.
        partners: `(n,)` rows to mix with.
        own_share: `(n,)` λ in [0, 1].
    """
    with torch.autocast(maps.device.type, enabled=False):
        own = channel_statistics(maps)
        mean, deviation = own
        share = own_share[:, None]
        scale = (share * deviation + (1 - share) * deviation[partners]) / deviation
        return with_statistics(maps, own, scale, share * mean + (1 - share) * mean[partners])


class MixStyle(StyleHook):
    """Mixes the styles of the maps that some modules give, while the network is in training mode.

    Args:
        net: the whole network, whose mode counts.
        modules: whose outputs are mixed, each by draws of its own.
        probability: of every sample, each on its own, to be mixed.
        alpha: λ is drawn from Beta(α, α); small values keep most of one of the two styles.
        device: where the maps lie.
    """

    def __init__(
        self, net: nn.Module, modules: Sequence[nn.Module], probability: float, alpha: float, device: torch.device
    ) -> None:
        super().__init__(net, modules, "mix_style_layers")
        self._probability = probability
        self._quantiles = beta_quantiles(alpha).to(device)

    def changed(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps `(n, c, h, w)` of which about a share of `probability` is mixed."""
        mixed, ratio, order = torch.rand(3, len(maps), device=maps.device).unbind()
        own_share = torch.where(mixed < self._probability, draw_beta(ratio, self._quantiles), 1.0)
        return mix_styles(maps, order.argsort(), own_share)
