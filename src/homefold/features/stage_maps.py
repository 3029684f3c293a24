"""A backbone cut into stages: the feature maps on the way from pixels to z, for methods that look inside."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from inspect import ismethod
from typing import TYPE_CHECKING

import torch
from torch import nn

from homefold.errors import ConfigError

if TYPE_CHECKING:
    from homefold.features.network import FeatureNet

__all__ = [
    "BackboneStages",
    "NamedPart",
    "backbone_stages",
    "chain",
    "cut_after",
    "features_from_map",
    "named_cuts",
    "stage_maps",
]

Step = Callable[[torch.Tensor], torch.Tensor]
NamedPart = tuple[str, Sequence[nn.Module]]
"""Layers of a network in the order they are applied, and what settings call them."""


@dataclass(frozen=True, eq=False)
class BackboneStages:
    """A backbone as steps.

    Args:
        stages: each from a map `(n, c, h, w)` to the next, the first from normalised images.
        finish: from the last map to the backbone's output `(n, d)`.
    """

    stages: tuple[Step, ...]
    finish: Step


def chain(steps: Iterable[Step]) -> Step:
    """All of them, one after the other."""
    kept = tuple(steps)
    return lambda x: reduce(lambda value, step: step(value), kept, x)


def cut_after(layers: Iterable[nn.Module], kind: type[nn.Module]) -> tuple[list[list[nn.Module]], list[nn.Module]]:
    """Runs of layers that end with one of `kind`, and the layers after the last of them."""
    parts: list[list[nn.Module]] = [[]]
    for layer in layers:
        parts[-1].append(layer)
        if isinstance(layer, kind):
            parts.append([])
    return parts[:-1], parts[-1]


def named_cuts(layers: Iterable[nn.Module], kind: type[nn.Module], name: str) -> list[NamedPart]:
    """Runs of layers that end with one of `kind`, numbered from 1; what comes after the last of them is the last."""
    parts, rest = cut_after(layers, kind)
    return [(f"{name}{number}", part) for number, part in enumerate([*parts, rest], start=1) if part]


def backbone_stages(backbone: nn.Module) -> BackboneStages:
    """The stages of any residual network, AlexNet, the digits nets and the wide residual network.

    A residual network gives the maps after its four layers, the wide one those after its groups (the last normalised
    and active), AlexNet and the digits nets those after each pooling, the digits nets' active.
    """
    own = getattr(backbone, "map_stages", None)
    if ismethod(own):
        stages: BackboneStages = own()
        return stages
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
    z: torch.Tensor = net.head(backbone_stages(net.backbone).finish(last))
    return z


def _alexnet(net: nn.Module) -> BackboneStages:
    features, avgpool, classifier = net.features, net.avgpool, net.classifier
    assert isinstance(features, nn.Sequential)
    stages, rest = cut_after(features, nn.MaxPool2d)
    last = chain(rest)
    return BackboneStages(tuple(map(chain, stages)), lambda x: classifier(torch.flatten(avgpool(last(x)), 1)))  # type: ignore[operator]


def _residual(net: nn.Module) -> BackboneStages:
    first = getattr(net, "relu", None) or net.act1  # timm and torchvision call it differently
    steps: list[Step] = [net.conv1, net.bn1, first, net.maxpool, net.layer1]  # type: ignore[list-item]
    rest: list[Step] = [net.layer2, net.layer3, net.layer4]  # type: ignore[list-item]
    pool, last = (net.avgpool, net.fc) if hasattr(net, "avgpool") else (net.global_pool, net.fc)
    return BackboneStages((chain(steps), *rest), lambda x: last(torch.flatten(pool(x), 1)))  # type: ignore[operator]
