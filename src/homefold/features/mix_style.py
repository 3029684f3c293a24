"""MixStyle (Zhou et al. 2021): inside the network, an image takes on some of another image's style while training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

import numpy as np
import torch
from torch import nn

from homefold.config.features import FeatureConfig
from homefold.errors import ConfigError
from homefold.features.blocks import early_blocks, last_modules
from homefold.features.network import FeatureNet

__all__ = ["MixStyle", "beta_quantiles", "draw_beta", "mix_styles", "mixed_styles"]

_TABLE_SIZE = 4097
_SMALLEST_VARIANCE = 1e-6


def beta_quantiles(alpha: float) -> torch.Tensor:
    """`(4097,)` quantiles of Beta(α, α) at evenly spaced probabilities from 0 to 1, for `draw_beta`."""
    from scipy.special import betaincinv  # type: ignore[import-untyped]

    return torch.from_numpy(betaincinv(alpha, alpha, np.linspace(0, 1, _TABLE_SIZE))).float()


def draw_beta(uniform: torch.Tensor, quantiles: torch.Tensor) -> torch.Tensor:
    """Uniform numbers in [0, 1) to numbers with the quantiles of a table, between its entries by a straight line.

    Rejection, the usual way to Beta, needs an unknown number of draws, which no captured step can make.
    """
    position = uniform * (len(quantiles) - 1)
    below = position.long().clamp(max=len(quantiles) - 2)
    return torch.lerp(quantiles[below], quantiles[below + 1], position - below)


def mix_styles(maps: torch.Tensor, partners: torch.Tensor, own_share: torch.Tensor) -> torch.Tensor:
    """Give every map the channel means and deviations λ · its own + (1 − λ) · its partner's.

    The statistics are constants for the gradient. A map with λ = 1 comes out as it was, bit for bit.
    maps: `(n, c, h, w)`, partners: `(n,)` rows to mix with, own_share: `(n,)` λ in [0, 1].
    """
    with torch.autocast(maps.device.type, enabled=False):
        variance, mean = torch.var_mean(maps.detach().float(), dim=(2, 3), correction=0)
        deviation = (variance + _SMALLEST_VARIANCE).sqrt()
        share = own_share[:, None]
        scale = (share * deviation + (1 - share) * deviation[partners]) / deviation
        shift = share * mean + (1 - share) * mean[partners] - mean * scale
        return (maps.float() * scale[:, :, None, None] + shift[:, :, None, None]).to(maps.dtype)


class MixStyle:
    """Mixes the styles of the maps that some modules give, while the network is in training mode.

    The style of a map is the mean and the standard deviation of each of its channels. So that a step can be captured as
    a CUDA graph and compiled, random numbers are drawn on the device, and nothing looks at them on the host.

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
        self._net, self._modules = net, modules
        self._probability = probability
        self._quantiles = beta_quantiles(alpha).to(device)

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Inside the block the modules' outputs are mixed; nothing of it stays in the network."""
        handles = [module.register_forward_hook(self._change) for module in self._modules]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _change(self, module: nn.Module, inputs: tuple[torch.Tensor, ...], maps: torch.Tensor) -> torch.Tensor:
        if not self._net.training:
            return maps
        if not isinstance(maps, torch.Tensor) or maps.ndim != 4:
            given = f"of shape {tuple(maps.shape)}" if isinstance(maps, torch.Tensor) else f"({type(maps).__name__})"
            raise ConfigError(
                f"mix_style_layers names a {type(module).__name__} whose output {given} is no feature map "
                f"(n, c, h, w); name earlier blocks."
            )
        return self.changed(maps)

    def changed(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps `(n, c, h, w)` of which about a share of `probability` is mixed."""
        mixed, ratio, order = torch.rand(3, len(maps), device=maps.device).unbind()
        own_share = torch.where(mixed < self._probability, draw_beta(ratio, self._quantiles), 1.0)
        return mix_styles(maps, order.argsort(), own_share)


def mixed_styles(
    config: FeatureConfig, net: FeatureNet, device: torch.device, size: tuple[int, int]
) -> AbstractContextManager[None]:
    """Inside the block `net` trains with styles mixed where `config` says so; without names, after `early_blocks`."""
    if not config.mix_style_probability:
        return nullcontext()
    names = config.mix_style_layers or early_blocks(net.backbone, size)
    modules = last_modules(net.backbone, names, "mix_style_layers")
    return MixStyle(net, modules, config.mix_style_probability, config.mix_style_alpha, device).attached()
