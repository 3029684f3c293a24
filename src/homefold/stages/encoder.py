"""f as images pass it: from pixels to features, each the same whatever came with it."""

from __future__ import annotations

import time

import numpy as np
import torch
from torch import nn

from homefold.config import HomefoldConfig
from homefold.config.views import WHOLE, View
from homefold.features import FeatureNet, build_feature_net
from homefold.features.extraction import extract_views
from homefold.stages.task import ImageSet

__all__ = ["Encoder", "build_net", "frozen"]


class Encoder:
    """Turns images into raw features by a frozen network, which lies on `device`."""

    def __init__(self, device: torch.device, net: nn.Module | None = None) -> None:
        self.device, self._net = device, net

    @property
    def net(self) -> nn.Module:
        """From images `(n, 3, h, w)` in [0, 1] to features `(n, d)`, frozen."""
        assert self._net is not None
        return self._net

    def of(self, images: ImageSet, views: tuple[View, ...] = WHOLE) -> tuple[torch.Tensor, float]:
        """Raw features `(n, d)`, the mean of all views, and the seconds that they took when they were computed."""
        return self.extract(images.pixels, views)

    def extract(self, pixels: np.ndarray, views: tuple[View, ...] = WHOLE) -> tuple[torch.Tensor, float]:
        """The same, computed now. pixels: `(n, h, w, 3)` uint8."""
        began = time.perf_counter()
        z = extract_views(self.net, pixels, self.device, views)
        return z, time.perf_counter() - began


def build_net(
    config: HomefoldConfig, image_size: tuple[int, int], *, pretrained: bool, backbone: nn.Module | None = None
) -> FeatureNet:
    """f with the weights that training starts from, or the shape of it for a trained state to be loaded into."""
    return build_feature_net(
        config.features,
        image_size,
        normalisation=config.preprocessing.normalisation,
        seed=config.seed,
        pretrained=pretrained,
        backbone=backbone,
    )


def frozen(module: nn.Module, device: torch.device) -> nn.Module:
    """`module` on `device`, laid out as in training, in eval mode and without gradients."""
    placed: nn.Module = module.to(device).to(memory_format=torch.channels_last)
    return placed.eval().requires_grad_(False)
