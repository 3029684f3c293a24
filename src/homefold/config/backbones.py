"""Backbones by name: one record each, registered in the file that builds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeVar

from homefold.runtime.registry import Registry

__all__ = ["BACKBONES", "Backbone", "backbone_named"]

B = TypeVar("B", bound=Callable[[], Any])

_NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Backbone:
    """What there is to know of a backbone; see `backbone_named`."""

    build: Callable[[], Any]
    pretrained: bool
    rates: Mapping[str, float]
    paper: Mapping[str, Any]


BACKBONES: Registry[Backbone] = Registry(
    "backbone", "homefold.features.backbones", also="timm:NAME, or one that a plugin registers"
)


def backbone_named(
    name: str,
    *,
    pretrained: bool = False,
    rates: Mapping[str, float] = _NOTHING,
    paper: Mapping[str, Any] = _NOTHING,
) -> Callable[[B], B]:
    """Register the decorated class, or a function that builds the network, as the backbone `name`.

    Its children are the blocks that styles are mixed or moved after; a network with others has a method `named_parts`
    that names them, and `map_levels` for the training-time methods that look inside, as `DigitsNet` has.

    Without its last layer and with random weights it turns images `(n, 3, h, w)` to `(n, d)`.

    Args:
        name: what people type.
        pretrained: whether torchvision has weights for it. A network without any is trained from scratch on small
            images: benchmarks take the small presets for it.
        rates: its own learning rate by preset, where the preset's does not suit it.
        paper: what the paper changes for it, by dotted name.
    """

    def keep(build: B) -> B:
        BACKBONES.add(name, Backbone(build, pretrained, rates, paper), build)
        return build

    return keep
