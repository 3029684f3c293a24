"""Random filters that change the texture and the colours of an image and keep its shapes (random convolutions)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["NUMBERS", "filter_repeatedly", "random_filters"]

_TAPS = 9
_WEIGHTS = 3 * 3 * _TAPS
NUMBERS = _WEIGHTS + 1 + 3 + 3
"""Uniform numbers that the filter of one image takes."""

_WIDEST = 1.0  # standard deviation, in pixels, of the widest window over a filter's 3 x 3 weights
_SPREAD = 0.5  # standard deviation of contrast and offset
_LEAST_CONTRAST = 0.1
_FLAT = 1e-3  # a channel of less contrast than this has no texture to bring out
_OPEN = 1e-6  # keeps uniform numbers off 0 and 1, which no normal number belongs to


def random_filters(uniform: Tensor) -> Tensor:
    """Filters `(n, 3, 29)` from uniform numbers `(NUMBERS, n)`: for each channel 27 weights, a contrast and an offset.

    Weights are normal numbers under a Gaussian window of random width: a narrow one mixes colours pixel by pixel, a
    wide one also blurs, sharpens and finds edges. They run over the nine taps, and for each over the three channels.
    """
    weights, width, contrast, offset = uniform.T.split([_WEIGHTS, 1, 3, 3], dim=1)
    steps = torch.arange(-1, 2, device=uniform.device)
    squares = (steps[:, None] ** 2 + steps**2).flatten()
    # exp underflows to exactly zero beside the middle at this floor: the filter then looks at one pixel alone.
    window = torch.exp(-0.5 * squares / (_WIDEST * width).clamp(min=1e-3) ** 2)
    filters = _normal(weights).view(-1, 3, _TAPS, 3) * window[:, None, :, None]
    contrasts = (1 + _SPREAD * _normal(contrast)).clamp(min=_LEAST_CONTRAST)
    return torch.cat((filters.flatten(2), contrasts[:, :, None], _SPREAD * _normal(offset)[:, :, None]), dim=2)


def _normal(uniform: Tensor) -> Tensor:
    """Standard normal numbers by the inverse of their distribution function."""
    normal: Tensor = torch.special.ndtri(uniform.clamp(_OPEN, 1 - _OPEN))
    return normal


def filter_repeatedly(images: Tensor, filters: Tensor, passes: Tensor, most: int) -> Tensor:
    """Pass every image so often through its own filter; back in [0, 1], or untouched where it is to pass never.

    A pass is x ← tanh(γ · standardised(w * x) + β), each channel of each image standardised by its own mean and
    deviation; borders are repeated outwards. The last pass is brought from (−1, 1) to (0, 1).

    Args:
        images: contiguous `(n, 3, height, width)` float32 in [0, 1].
        filters: `(n, 3, 29)` w, γ and β, as `random_filters` lays them out.
        passes: `(n,)` from 0 to `most`.
    """
    height, width = images.shape[2:]
    weights, contrasts, offsets = filters.split([_WEIGHTS // 3, 1, 1], dim=2)
    filtered = images
    for done in range(most):
        padded = F.pad(filtered, (1, 1, 1, 1), mode="replicate")
        taps = [padded[:, :, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        mixed = torch.bmm(weights, torch.stack(taps, dim=1).flatten(3).flatten(1, 2))
        mixed.sub_(mixed.mean(2, keepdim=True))
        deviation = torch.linalg.vector_norm(mixed, dim=2, keepdim=True) / math.sqrt(height * width)
        passed = mixed.mul_(contrasts / (deviation + _FLAT)).add_(offsets).tanh_().view_as(images)
        filtered = torch.where((done < passes)[:, None, None, None], passed, filtered)
    return torch.where((passes > 0)[:, None, None, None], (filtered + 1) / 2, images)
