"""Several fixed views of one image: the whole, crops of it, their mirror images, the whole filtered.

Nothing is drawn at random: the filters are those of training, drawn once for all from a seed of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import torch
from torch.nn import functional as F

from homefold.config.views import Part, View
from homefold.data.random_texture import NUMBERS, filter_repeatedly, random_filters
from homefold.features.loss import cosine_normalise
from homefold.runtime.seeding import generator

__all__ = ["apply_view", "mean_of_views"]

_SIDE = 7 / 8

_MOST_PASSES = 2


def apply_view(images: torch.Tensor, view: View) -> torch.Tensor:
    """`images: (n, 3, h, w)` seen so; of the same shape, channels last."""
    height, width = images.shape[2:]
    if view.part != "whole":
        top, left, rows, columns = _box(view.part, height, width)
        crop = images[:, :, top : top + rows, left : left + columns]
        images = F.interpolate(crop, size=(height, width), mode="bilinear", align_corners=False)
    if view.mirrored:
        images = images.flip(3)
    if view.texture:
        images = _filtered(images.float(), view.texture).to(images.dtype)
    return images.contiguous(memory_format=torch.channels_last)


def _box(part: Part, height: int, width: int) -> tuple[int, int, int, int]:
    """Top, left, rows and columns of a crop."""
    rows, columns = max(1, round(_SIDE * height)), max(1, round(_SIDE * width))
    spare_rows, spare_columns = height - rows, width - columns
    if part == "centre":
        return spare_rows // 2, spare_columns // 2, rows, columns
    top = spare_rows if part.startswith("bottom") else 0
    left = spare_columns if part.endswith("right") else 0
    return top, left, rows, columns


@cache
def _fixed_filter(number: int) -> torch.Tensor:
    return random_filters(torch.rand((NUMBERS, 1), generator=generator(0, "texture view", number)))


def _filtered(images: torch.Tensor, number: int) -> torch.Tensor:
    """`images: (n, 3, h, w)` after a fixed filter: once for odd numbers, twice for even ones."""
    filters = _fixed_filter(number).to(images.device).expand(images.shape[0], -1, -1)
    times = 1 + (number + 1) % _MOST_PASSES
    passes = torch.full((images.shape[0],), times, device=images.device)
    return filter_repeatedly(images.contiguous(), filters, passes, times)


def mean_of_views(features: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean direction of several `(n, d)` features of the same images, at the mean of their lengths.

    With z_v the features, m the mean of z_v / ‖z_v‖ and g any point, mean_v(1 − cos(z_v, g)) = 1 − ‖m‖ cos(m, g): the
    point that is most similar to all views at once is the one that is most similar to m, which one search finds.
    """
    direction = _mean_of([cosine_normalise(z) for z in features])
    length = _mean_of([torch.linalg.vector_norm(z, dim=1, keepdim=True) for z in features])
    return cosine_normalise(direction) * length


def _mean_of(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """Added one after the other: a reduction over a stack sums in an order that depends on how many rows it has."""
    return sum(tensors[1:], start=tensors[0]) / len(tensors)
