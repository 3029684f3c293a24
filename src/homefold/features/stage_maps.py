"""A backbone cut into stages: the feature maps on the way from pixels to z, for methods that look inside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn

from homefold.errors import ConfigError
from homefold.features.backbones import DigitsNet, WideResNet
from homefold.features.network import FeatureNet

__all__ = ["BackboneStages", "backbone_stages", "features_from_map", "stage_maps"]

Step = Callable[[torch.Tensor], torch.Tensor]


@dataclass(frozen=True, eq=False)
class BackboneStages:
    """A backbone as its stages, which share its parameters: `finish(stages[-1](… stages[0](x)))` is `backbone(x)`.

    Args:
        stages: each from a map `(n, c, h, w)` to the next, the first from normalised images.
        finish: from the last map to the backbone's output `(n, d)`.
    """

    stages: tuple[Step, ...]
    finish: Step


def backbone_stages(backbone: nn.Module) -> BackboneStages:
    """The stages of any residual network, AlexNet, the digits nets and the wide residual network.

    A residual network gives the maps after its four layers, the wide one those after its groups (the last normalised
    and active), AlexNet and the digits nets those after each pooling, the digits nets' active.
    """
    if isinstance(backbone, DigitsNet):
        return _digits(backbone)
    if isinstance(backbone, WideResNet):
        return _wide(backbone)
    if all(hasattr(backbone, name) for name in ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")):
        return _residual(backbone)
    if hasattr(backbone, "features") and hasattr(backbone, "avgpool") and hasattr(backbone, "classifier"):
        return _alexnet(backbone)
    raise ConfigError(
        f"this method needs the feature maps inside the network, and a {type(backbone).__name__} does not show them; "
        f"choose a resnet, alexnet, digits, digits-bn or wrn-16-4."
    )


def stage_maps(net: FeatureNet, images: torch.Tensor) -> list[torch.Tensor]:
    """The map `(n, c, h, w)` after each stage, first to last. images: `(n, 3, h, w)` in [0, 1]."""
    x = (images - net.mean) / net.std
    maps = []
    for stage in backbone_stages(net.backbone).stages:
        x = stage(x)
        maps.append(x)
    return maps


def features_from_map(net: FeatureNet, last: torch.Tensor) -> torch.Tensor:
    """z `(n, d)` from the last of `stage_maps`: pooling, the rest of the backbone, and the head."""
    return net.head(backbone_stages(net.backbone).finish(last))


def _chain(*steps: Step) -> Step:
    def run(x: torch.Tensor) -> torch.Tensor:
        for step in steps:
            x = step(x)
        return x

    return run


def _cut_after(layers: nn.Sequential, kind: type[nn.Module]) -> tuple[tuple[Step, ...], list[nn.Module]]:
    """Chains of layers that end with one of `kind`, and the layers after the last of them."""
    stages: list[Step] = []
    part: list[nn.Module] = []
    for layer in layers:
        part.append(layer)
        if isinstance(layer, kind):
            stages.append(_chain(*part))
            part = []
    return tuple(stages), part


def _digits(net: DigitsNet) -> BackboneStages:
    stages, rest = _cut_after(net, nn.ReLU)
    return BackboneStages(stages, _chain(*rest))


def _alexnet(net: nn.Module) -> BackboneStages:
    features, avgpool, classifier = net.features, net.avgpool, net.classifier
    assert isinstance(features, nn.Sequential)
    stages, rest = _cut_after(features, nn.MaxPool2d)
    return BackboneStages(stages, lambda x: classifier(torch.flatten(avgpool(_chain(*rest)(x)), 1)))  # type: ignore[operator]


def _residual(net: nn.Module) -> BackboneStages:
    first = getattr(net, "relu", None) or net.act1  # timm and torchvision call it differently
    steps: list[Step] = [net.conv1, net.bn1, first, net.maxpool, net.layer1]  # type: ignore[list-item]
    rest: list[Step] = [net.layer2, net.layer3, net.layer4]  # type: ignore[list-item]
    pool, last = (net.avgpool, net.fc) if hasattr(net, "avgpool") else (net.global_pool, net.fc)
    return BackboneStages((_chain(*steps), *rest), lambda x: last(torch.flatten(pool(x), 1)))  # type: ignore[operator]


def _wide(net: WideResNet) -> BackboneStages:
    blocks = list(net.blocks)
    size = len(blocks) // 3
    groups = [blocks[index : index + size] for index in range(0, len(blocks), size)]
    stages = (
        _chain(net.stem, *groups[0]),
        _chain(*groups[1]),
        _chain(*groups[2], net.norm, torch.relu),
    )
    return BackboneStages(stages, lambda x: x.mean(dim=(2, 3)))
