"""A backbone in one file: two convolutions, trained from scratch.

homefold fit photos/ --out model --preset small --backbone tiny --plugin examples/plugins/tiny_backbone.py
"""

from __future__ import annotations

from torch import nn

from homefold.features import backbone_named


def block(channels_in: int, channels_out: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, stride=2, padding=1), nn.BatchNorm2d(channels_out), nn.ReLU()
    )


@backbone_named("tiny", rates={"small": 0.2})
class Tiny(nn.Sequential):
    """Images `(n, 3, h, w)` to `(n, 64)`; styles may be mixed or moved after `low` and `high`."""

    def __init__(self) -> None:
        super().__init__()
        self.low = block(3, 32)
        self.high = block(32, 64)
        self.pool = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())
