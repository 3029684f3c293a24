"""What happens to styles inside the network while it trains, as the settings of stage 1 say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import torch
from torch import nn

from homefold.features.blocks import early_blocks, last_modules
from homefold.features.config import FeatureConfig
from homefold.features.mix_style import MixStyle
from homefold.features.network import FeatureNet
from homefold.features.style_hook import StyleHook
from homefold.features.style_noise import StyleNoise

__all__ = ["require_style_layers", "style_modules", "varied_styles"]


@contextmanager
def varied_styles(
    config: FeatureConfig, net: FeatureNet, device: torch.device, size: tuple[int, int]
) -> Iterator[None]:
    """Inside the block `net` trains with styles mixed, then moved at random, where `config` says so.

    Args:
        config: how often, how strongly, and after which blocks.
        net: what is trained.
        device: where it is.
        size: height and width of its images.
    """
    # All are made before the first is attached: finding modules may send an image through the network.
    hooks: list[StyleHook] = []
    if config.mix_style_probability:
        modules = style_modules(net.backbone, config.mix_style_layers, size, "mix_style_layers")
        hooks.append(MixStyle(net, modules, config.mix_style_probability, config.mix_style_alpha, device))
    if config.style_noise_probability:
        modules = style_modules(net.backbone, config.style_noise_layers, size, "style_noise_layers")
        hooks.append(StyleNoise(net, modules, config.style_noise_probability))
    with ExitStack() as attached:
        for hook in hooks:
            attached.enter_context(hook.attached())
        yield


def style_modules(backbone: nn.Module, names: Sequence[str], size: tuple[int, int], setting: str) -> list[nn.Module]:
    """The modules after which styles change: the last of each block that `setting` names; without names, of
    `early_blocks`."""
    return last_modules(backbone, names or early_blocks(backbone, size), setting)


def require_style_layers(config: FeatureConfig, backbone: nn.Module) -> None:
    """Refuse blocks that `backbone` does not have."""
    last_modules(backbone, config.mix_style_layers, "mix_style_layers")
    last_modules(backbone, config.style_noise_layers, "style_noise_layers")
