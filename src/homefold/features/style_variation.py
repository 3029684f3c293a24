"""Where styles are mixed inside the network while it trains, as the settings of stage 1 say."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn

from homefold.config.features import FeatureConfig
from homefold.features.blocks import early_blocks, last_modules
from homefold.features.mix_style import MixStyle
from homefold.features.network import FeatureNet

__all__ = ["mixed_styles", "require_style_layers"]


def mixed_styles(
    config: FeatureConfig, net: FeatureNet, device: torch.device, size: tuple[int, int]
) -> AbstractContextManager[None]:
    """Inside the block `net` trains with styles mixed where `config` says so; without names, after `early_blocks`.

    Args:
        config: how often, how strongly, and after which blocks.
        net: what is trained.
        device: where it is.
        size: height and width of its images.
    """
    if not config.mix_style_probability:
        return nullcontext()
    names = config.mix_style_layers or early_blocks(net.backbone, size)
    modules = last_modules(net.backbone, names, "mix_style_layers")
    return MixStyle(net, modules, config.mix_style_probability, config.mix_style_alpha, device).attached()


def require_style_layers(config: FeatureConfig, backbone: nn.Module) -> None:
    """Refuse blocks that `backbone` does not have."""
    last_modules(backbone, config.mix_style_layers, "mix_style_layers")
