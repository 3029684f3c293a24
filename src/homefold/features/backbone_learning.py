"""How fast each part of a pretrained backbone learns, and which parts do not: what keeps pretrained features alive."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from homefold.errors import ConfigError
from homefold.features.blocks import Block, backbone_blocks
from homefold.features.config import FeatureConfig
from homefold.features.loop import ParameterGroup

__all__ = ["backbone_groups", "freeze_batch_norm", "frozen_first_blocks", "learns_as_the_head"]


def learns_as_the_head(config: FeatureConfig) -> bool:
    """Whether the backbone learns at the head's rate in all its parts."""
    return config.backbone_rate == 1 and config.layer_decay == 1 and config.frozen_blocks == 0


def backbone_groups(config: FeatureConfig, backbone: nn.Module) -> list[ParameterGroup]:
    """The blocks that learn: the last at `backbone_rate`, each earlier one at `layer_decay` of the next one's rate."""
    blocks = backbone_blocks(backbone)
    frozen = len(_frozen(blocks, config.frozen_blocks))
    return [
        ParameterGroup(list(block.parameters), config.backbone_rate * config.layer_decay ** (len(blocks) - 1 - place))
        for place, block in enumerate(blocks)
        if place >= frozen
    ]


@contextmanager
def frozen_first_blocks(config: FeatureConfig, backbone: nn.Module) -> Iterator[None]:
    """Inside the block no gradient is computed for the blocks that do not learn."""
    frozen = _frozen(backbone_blocks(backbone), config.frozen_blocks) if config.frozen_blocks else ()
    parameters = [item for block in frozen for item in block.parameters if item.requires_grad]
    for parameter in parameters:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parameters:
            parameter.requires_grad_(True)


def freeze_batch_norm(module: nn.Module) -> None:
    """Let all batch-norm layers inside normalise by the statistics they have, and keep them."""
    for layer in module.modules():
        if isinstance(layer, _BatchNorm):
            layer.eval()


def _frozen(blocks: tuple[Block, ...], count: int) -> tuple[Block, ...]:
    if count > len(blocks):
        raise ConfigError(
            f"frozen_blocks is {count}, and this backbone has {len(blocks)} blocks: "
            f"{', '.join(block.name for block in blocks)}. Choose at most {len(blocks)}."
        )
    return blocks[:count]
