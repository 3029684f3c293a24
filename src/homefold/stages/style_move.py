"""Towards which source styles an image's style is moved, and how far from them it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from homefold.config import LookConfig
from homefold.features.network import FeatureNet
from homefold.stages.task import ImageSet
from homefold.stages.trained_model import TrainedModel
from homefold.style import collect_styles

__all__ = ["StyleMove", "style_moves"]

_ALL = "all sources"


@dataclass(frozen=True)
class StyleMove:
    """What styles are moved towards after the first block, and how far an image's own is from there.

    Args:
        distances: to the mean style of each place, in deviations of the styles there; 1 is usual for a source image.
        weight: share of the way that is gone; what is left of each distance is 1 − weight.
        as_it_is: whether the image is seen as it is too, and the features of all are averaged.
    """

    distances: dict[str, float]
    weight: float
    as_it_is: bool

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return dict(vars(self))

    def __str__(self) -> str:
        places = ", ".join(f"{name} ({distance:.1f} away)" for name, distance in self.distances.items())
        return f"moved {100 * self.weight:.0f} % of the way towards {places}"


@torch.no_grad()
def style_moves(model: TrainedModel, images: ImageSet, look: LookConfig | None = None) -> Sequence[StyleMove | None]:
    """One for each image; None where the model leaves styles as they are. Whether an image is familiar is not asked."""
    net, style = model.encoder.net, model.style
    if style is None or not (look or model.config.look).styles or not isinstance(net, FeatureNet):
        return [None] * len(images.pixels)
    several = style.config.manifold == "domains"
    (own,) = collect_styles(net, images.pixels, model.encoder.device, style.config.blocks[:1])
    of_places = []
    for first, *_ in style.destinations:
        mean, deviation = first.get_buffer("mean"), first.get_buffer("deviation")
        of_places.append(((own - mean) / deviation).square().mean(dim=1).sqrt())
    names = model.domains if several else (_ALL,)
    return [
        StyleMove(dict(zip(names, row, strict=True)), style.config.weight, several)
        for row in torch.stack(of_places, dim=1).tolist()
    ]
