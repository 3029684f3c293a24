"""The style of a feature map: the mean and the standard deviation of each of its channels."""

from __future__ import annotations

import math

import torch

__all__ = ["map_style", "restyle"]

_SMALLEST_VARIANCE = 1e-6
_LARGEST_STRETCH = math.log(4.0)


def map_style(maps: torch.Tensor) -> torch.Tensor:
    """`(n, 2 c)` of `maps: (n, c, h, w)`: the channels' means, then the logarithms of their standard deviations."""
    # By the mean of squares: on a CPU torch.var_mean takes three times as long.
    mean = maps.mean(dim=(2, 3), dtype=torch.float32)
    squares = torch.linalg.vector_norm(maps, dim=(2, 3), dtype=torch.float32).square() / maps.shape[2:].numel()
    variance = (squares - mean.square()).clamp_min(0)
    return torch.cat([mean, 0.5 * (variance + _SMALLEST_VARIANCE).log()], dim=1)


def restyle(maps: torch.Tensor, own: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """The maps `(n, c, h, w)` with another style in the place of their own, both `(n, 2 c)` as `map_style` gives them.

    A channel is stretched to at most four times its deviation: one that is nearly constant holds nothing but noise.

    >>> maps = torch.tensor([[[[0.0, 2.0]]]])
    >>> restyle(maps, map_style(maps), torch.tensor([[5.0, 0.0]])).flatten().round()
    tensor([4., 6.])
    """
    mean, deviation = own.chunk(2, dim=1)
    new_mean, new_deviation = wanted.chunk(2, dim=1)
    scale = (new_deviation - deviation).clamp_max(_LARGEST_STRETCH).exp()
    shift = new_mean - mean * scale
    scale, shift = scale[:, :, None, None], shift[:, :, None, None]
    learns = torch.is_grad_enabled() and (maps.requires_grad or scale.requires_grad or shift.requires_grad)
    if learns or maps.dtype == torch.float32:
        return torch.addcmul(shift, maps.float(), scale).to(maps.dtype)
    # In one pass: maps of 16 bits are neither read nor written as 32.
    return torch.addcmul(shift, maps, scale, out=torch.empty_like(maps))
