"""A backbone cut into levels: the feature maps on the way from pixels to z, for methods that look inside."""

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
    "BackboneLevels",
    "NamedPart",
    "backbone_levels",
    "chain",
    "cut_after",
    "features_from_map",
    "level_maps",
    "named_cuts",
]

Step = Callable[[torch.Tensor], torch.Tensor]
NamedPart = tuple[str, Sequence[nn.Module]]
"""Layers of a network in the order they are applied, and what settings call them."""


@dataclass(frozen=True, eq=False)
class BackboneLevels:
    """A backbone as steps.

    Args:
        levels: each from a map `(n, c, h, w)` to the next, the first from normalised images.
        finish: from the last map to the backbone's output `(n, d)`.
    """

    levels: tuple[Step, ...]
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


def backbone_levels(backbone: nn.Module) -> BackboneLevels:
    """The levels of any residual network, AlexNet, the digits nets and the wide residual network.

    A residual network gives the maps after its four layers, the wide one those after its groups (the last normalised
    and active), AlexNet and the digits nets those after each pooling, the digits nets' active.
    """
    own = getattr(backbone, "map_levels", None)
    if ismethod(own):
        levels: BackboneLevels = own()
        return levels
    if all(hasattr(backbone, name) for name in ("conv1", "bn1", "layer1", "layer2", "layer3", "layer4")):
        return _residual(backbone)
    if hasattr(backbone, "features") and hasattr(backbone, "avgpool") and hasattr(backbone, "classifier"):
        return _alexnet(backbone)
    raise ConfigError(
        f"this method needs the feature maps inside the network, and a {type(backbone).__name__} does not show them; "
        f"choose a resnet, alexnet, digits, digits-bn or wrn-16-4."
    )


def level_maps(net: FeatureNet, images: torch.Tensor) -> list[torch.Tensor]:
    """The map `(n, c, h, w)` after each level, first to last. images: `(n, 3, h, w)` in [0, 1]."""
    x = (images - net.mean) / net.std
    maps = []
    for level in backbone_levels(net.backbone).levels:
        x = level(x)
        maps.append(x)
    return maps


def features_from_map(net: FeatureNet, last: torch.Tensor) -> torch.Tensor:
    """z `(n, d)` from the last of `level_maps`: pooling, the rest of the backbone, and the head."""
    z: torch.Tensor = net.head(backbone_levels(net.backbone).finish(last))
    return z


def _alexnet(net: nn.Module) -> BackboneLevels:
    features, avgpool, classifier = net.features, net.avgpool, net.classifier
    assert isinstance(features, nn.Sequential)
    levels, rest = cut_after(features, nn.MaxPool2d)
    last = chain(rest)
    return BackboneLevels(tuple(map(chain, levels)), lambda x: classifier(torch.flatten(avgpool(last(x)), 1)))  # type: ignore[operator]


def _residual(net: nn.Module) -> BackboneLevels:
    first = getattr(net, "relu", None) or net.act1  # timm and torchvision call it differently
    steps: list[Step] = [net.conv1, net.bn1, first, net.maxpool, net.layer1]  # type: ignore[list-item]
    rest: list[Step] = [net.layer2, net.layer3, net.layer4]  # type: ignore[list-item]
    pool, last = (net.avgpool, net.fc) if hasattr(net, "avgpool") else (net.global_pool, net.fc)
    return BackboneLevels((chain(steps), *rest), lambda x: last(torch.flatten(pool(x), 1)))  # type: ignore[operator]
