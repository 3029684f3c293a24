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
from homefold.features.starting_point import StartingPoint

__all__ = ["backbone_groups", "freeze_batch_norm", "frozen_first_blocks", "learns_as_the_head", "starting_point"]


def learns_as_the_head(config: FeatureConfig) -> bool:
    """Whether the backbone learns at the head's rate in all its parts, with the head's weight decay."""
    rates_alike = config.backbone_rate == 1 and config.layer_decay == 1
    return rates_alike and config.frozen_blocks == 0 and config.pretrained_pull == 0


def backbone_groups(config: FeatureConfig, backbone: nn.Module) -> list[ParameterGroup]:
    """The blocks that learn: the last at `backbone_rate`, each earlier one at `layer_decay` of the next one's rate."""
    blocks = backbone_blocks(backbone)
    frozen = len(_frozen(blocks, config.frozen_blocks))
    # Pulled to where they started, they are not pulled to zero as well.
    weight_decay = 0.0 if config.pretrained_pull else None
    rates = [config.backbone_rate * config.layer_decay**distance for distance in reversed(range(len(blocks)))]
    groups = [
        ParameterGroup(list(block.parameters), rate, weight_decay) for block, rate in zip(blocks, rates, strict=True)
    ]
    return groups[frozen:]


def starting_point(config: FeatureConfig, backbone: nn.Module) -> StartingPoint:
    """The present weights of the blocks that learn."""
    groups = backbone_groups(config, backbone)
    learning = {id(parameter) for group in groups for parameter in group.parameters}
    return StartingPoint({name: item for name, item in backbone.named_parameters() if id(item) in learning})


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
