"""Changing the styles of feature maps inside a network while it trains.

The style of a map is the mean and the standard deviation of each of its channels. Written so that a step can be
recorded as a CUDA graph and compiled: random numbers are drawn on the device, and nothing looks at them on the host.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import nn

from homefold.errors import ConfigError

__all__ = ["StyleHook", "channel_statistics", "with_statistics"]

_SMALLEST_VARIANCE = 1e-6


class StyleHook(ABC):
    """Changes the styles of the maps that some modules give, while the network is in training mode.

    Args:
        net: the whole network, whose mode counts.
        modules: whose outputs are changed, each by draws of its own.
        setting: what named them, for messages.
    """

    def __init__(self, net: nn.Module, modules: Sequence[nn.Module], setting: str) -> None:
        self._net, self._modules, self._setting = net, modules, setting

    @abstractmethod
    def changed(self, maps: torch.Tensor) -> torch.Tensor:
        """Maps `(n, c, h, w)` with other styles."""

    @contextmanager
    def attached(self) -> Iterator[None]:
        """Inside the block the modules' outputs are changed; nothing of it stays in the network."""
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
                f"{self._setting} names a {type(module).__name__} whose output {given} is no feature map "
                f"(n, c, h, w); name earlier blocks."
            )
        return self.changed(maps)


def channel_statistics(maps: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Means and deviations `(n, c)` of the channels of maps `(n, c, h, w)`, in float32, constants for the gradient."""
    variance, mean = torch.var_mean(maps.detach().float(), dim=(2, 3), correction=0)
    return mean, (variance + _SMALLEST_VARIANCE).sqrt()


def with_statistics(
    maps: torch.Tensor, own: tuple[torch.Tensor, torch.Tensor], scale: torch.Tensor, mean: torch.Tensor
) -> torch.Tensor:
    """Maps with deviations `scale` times their own and the given means.

    Args:
        maps: `(n, c, h, w)`.
        own: what `channel_statistics` says of them.
        scale: `(n, c)`.
        mean: `(n, c)`.
    """
    shift = mean - own[0] * scale
    return (maps.float() * scale[:, :, None, None] + shift[:, :, None, None]).to(maps.dtype)
