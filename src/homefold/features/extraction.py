"""f over many images, each result independent of the images that came with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import nn

from homefold.config.views import WHOLE, View
from homefold.features.batches import ImageStore
from homefold.features.network import FeatureNet
from homefold.features.views import apply_view, mean_of_views
from homefold.runtime.tiles import apply_in_tiles, steady_tile

__all__ = ["extract_features", "extract_views", "image_tile"]

_TILE_PIXELS = 32 * 32 * 32
_SMALLEST_TILE, _LARGEST_TILE = 4, 32
_TILE_ON_ACCELERATOR = 64


def image_tile(image_size: tuple[int, int], device: torch.device) -> int:
    """Images computed together: enough to use the device, few enough that one alone does not cost many times more."""
    if device.type != "cpu":
        return _TILE_ON_ACCELERATOR
    return max(_SMALLEST_TILE, min(_LARGEST_TILE, _TILE_PIXELS // (image_size[0] * image_size[1])))


def extract_views(net: nn.Module, images: np.ndarray, device: torch.device, views: Sequence[View]) -> torch.Tensor:
    """The mean features `(n, d)` of several views of each image; with one view they are that view's as they are."""
    found = [extract_features(net, images, device, view=view) for view in views]
    return found[0] if len(found) == 1 else mean_of_views(found)


def extract_features(
    net: nn.Module, images: np.ndarray, device: torch.device, *, view: View = WHOLE[0], pooled: bool = False
) -> torch.Tensor:
    """Features `(n, d)` of `images: (n, h, w, 3)` uint8, on `device`, in tiles of a fixed size.

    Args:
        net: f.
        images: in memory or mapped from a file.
        device: where to compute.
        view: how each image is seen.
        pooled: give what f's backbone does, without the head.
    """
    function: Callable[[torch.Tensor], torch.Tensor] = net
    if pooled:
        assert isinstance(net, FeatureNet)
        function = net.pooled

    def forward(images: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = function(images if view == WHOLE[0] else apply_view(images, view))
        return z

    def as_stored(images: torch.Tensor) -> torch.Tensor:
        # Laid out as the store hands them out: another layout means other kernels.
        return forward(images.contiguous(memory_format=torch.channels_last))

    store = ImageStore(images, device)
    height, width = images.shape[1:3]
    net.eval()
    with torch.no_grad():
        size = steady_tile(
            net, (view, pooled), as_stored, (3, height, width), image_tile((height, width), device), device
        )
        return apply_in_tiles(lambda rows: forward(store.batch(rows)).float(), torch.arange(len(images)), size)
