"""The blocks of a network after which styles are moved, where the settings do not name them."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import nn

from homefold.features.blocks import backbone_blocks, inner_blocks, last_modules
from homefold.style.config import EARLY, StyleConfig

__all__ = ["early_blocks", "named_blocks"]

_COARSEST = 16


def named_blocks(config: StyleConfig, backbone: nn.Module, size: tuple[int, int]) -> StyleConfig:
    """`config` with the names that `early` stands for in this network: none where it has no such maps.

    Args:
        config: as it was asked for.
        backbone: any network.
        size: height and width of its images.
    """
    return replace(config, blocks=early_blocks(backbone, size)) if config.blocks == (EARLY,) else config


@torch.no_grad()
def early_blocks(backbone: nn.Module, size: tuple[int, int]) -> tuple[str, ...]:
    """Those of the first two blocks after the stem that give fine maps, of a sixteenth of the image's side or more.

    One image is sent through the network to see. A vision transformer's blocks give no maps, and where a network comes
    in few large parts, the map after one of them says what is in an image rather than how it looks.

    >>> from homefold.features.backbones import DigitsNet
    >>> early_blocks(DigitsNet(), (32, 32))
    ('block1', 'block2')
    """
    names = inner_blocks(backbone_blocks(backbone))
    fine: set[str] = set()

    def look(name: str, output: object) -> None:
        if isinstance(output, torch.Tensor) and output.ndim == 4 and _COARSEST * min(output.shape[2:]) >= min(size):
            fine.add(name)

    handles = [
        module.register_forward_hook(lambda _module, _inputs, output, name=name: look(name, output))
        for name, module in zip(names, last_modules(backbone, names, "blocks of style"), strict=True)
    ]
    before, place = backbone.training, next(backbone.parameters(), torch.empty(0)).device
    try:
        backbone.eval()(torch.zeros((1, 3, *size), device=place))
    finally:
        backbone.train(before)
        for handle in handles:
            handle.remove()
    return tuple(name for name in names if name in fine)
