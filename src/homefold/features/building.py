"""f_θ from its settings."""

from __future__ import annotations

import copy

from torch import nn

from homefold.config.features import FeatureConfig
from homefold.config.whole import Normalisation
from homefold.features.backbones import build_backbone
from homefold.features.network import FeatureNet
from homefold.runtime.seeding import isolated_seed

__all__ = ["build_feature_net"]


def build_feature_net(
    config: FeatureConfig,
    image_size: tuple[int, int],
    *,
    normalisation: Normalisation,
    seed: int,
    pretrained: bool,
    backbone: nn.Module | None = None,
) -> FeatureNet:
    """The network that `config` describes, before stage 1.

    Args:
        config: backbone, weights, head and feature size.
        image_size: `(height, width)` of its input.
        normalisation: statistics of its input.
        seed: of what starts at random.
        pretrained: start from the configured weights; False when a saved state will be loaded into it.
        backbone: used instead of the configured one; a copy of it is trained, so that it can serve again.
    """
    with isolated_seed(seed, "network"):
        if backbone is None:
            backbone = build_backbone(config.backbone, config.weights if pretrained else "none")
        else:
            backbone = copy.deepcopy(backbone).requires_grad_(True)
        return FeatureNet(
            backbone, image_size, head=config.head, feature_dim=config.feature_dim, normalisation=normalisation
        )
