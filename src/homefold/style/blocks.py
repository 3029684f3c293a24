"""The blocks of a network after which styles are moved, where the settings do not name them."""

from __future__ import annotations

from dataclasses import replace

from torch import nn

from homefold.config.whole import EARLY, StyleConfig
from homefold.features.blocks import early_blocks

__all__ = ["named_blocks"]


def named_blocks(config: StyleConfig, backbone: nn.Module, size: tuple[int, int]) -> StyleConfig:
    """`config` with the names that `early` stands for in this network: none where it has no such maps.

    Args:
        config: as it was asked for.
        backbone: any network.
        size: height and width of its images.
    """
    return replace(config, blocks=early_blocks(backbone, size)) if config.blocks == (EARLY,) else config
