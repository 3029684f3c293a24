"""What pixels are normalised with: statistics by name, and those that a network of timm was trained with."""

from __future__ import annotations

from functools import cache
from typing import Any, Literal

from homefold.errors import ConfigError

__all__ = ["STATISTICS", "Normalisation", "published_input"]

Normalisation = Literal["imagenet", "half", "none", "clip", "dpn", "satellite"]

STATISTICS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "imagenet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "half": ((0.5, 0.5, 0.5), (0.5, 0.5, 0.5)),
    "none": ((0.0, 0.0, 0.0), (1.0, 1.0, 1.0)),
    "clip": ((0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)),
    "dpn": ((124 / 255, 117 / 255, 104 / 255), (1 / (0.0167 * 255),) * 3),
    "satellite": ((0.430, 0.411, 0.296), (0.213, 0.156, 0.143)),
}
"""Mean and standard deviation of each channel of pixels in [0, 1]."""

_SAME = 1e-4


@cache
def published_input(backbone: str) -> dict[str, Any]:
    """Image size and normalisation that `timm:NAME` was trained with, by dotted name.

    Empty for any other backbone, for one that timm does not know, and without timm.
    """
    if not backbone.startswith("timm:"):
        return {}
    try:
        import timm  # takes a second, and is an extra
    except ImportError:
        return {}
    name = backbone.removeprefix("timm:")
    published = timm.get_pretrained_cfg(name) if timm.is_model(name) else None
    if published is None:
        return {}
    return {
        "preprocessing.image_size": int(max(published.input_size[1:])),
        "preprocessing.normalisation": _name_of(published.mean, published.std, backbone),
    }


def _name_of(mean: tuple[float, ...], std: tuple[float, ...], backbone: str) -> str:
    for name, known in STATISTICS.items():
        pairs = zip((*mean, *std), (*known[0], *known[1]), strict=True)
        if all(abs(own - other) < _SAME for own, other in pairs):
            return name
    raise ConfigError(
        f"{backbone} was trained on pixels of mean {mean} and deviation {std}, for which preprocessing.normalisation "
        f"has no name; there are {', '.join(STATISTICS)}. Choose another network."
    )
