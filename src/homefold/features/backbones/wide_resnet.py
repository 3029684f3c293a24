"""The wide residual network of the paper's corruption benchmark."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import nn

from homefold.config.backbones import backbone_named
from homefold.features.level_maps import BackboneLevels, NamedPart, chain

__all__ = ["WideResNet"]

_PAPER = {
    "preprocessing.image_size": 32,
    "features.weights": "none",
    "features.learning_rate": 0.1,
    "features.weight_decay": 5e-4,
    "features.schedule": "step",
    "features.milestones": (0.25, 0.5, 0.75),
    "features.decay": 0.2,
}


class _WideBlock(nn.Module):
    """Pre-activation residual block: BN-ReLU-conv twice, with a 1×1 shortcut where the shape changes."""

    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels_out, 3, stride, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, 1, 1, bias=False)
        same = channels_in == channels_out and stride == 1
        self.shortcut = None if same else nn.Conv2d(channels_in, channels_out, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        active = torch.relu(self.norm1(x))
        residual = x if self.shortcut is None else self.shortcut(active)
        total: torch.Tensor = residual + self.conv2(torch.relu(self.norm2(self.conv1(active))))
        return total


@backbone_named("wrn-16-4", paper=_PAPER)
class WideResNet(nn.Module):
    """WRN-16-4 for 32×32 images, without its last layer: three groups of two blocks give 256 features."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        widths = (16, 64, 64, 128, 128, 256, 256)
        self.blocks = nn.Sequential(
            *(_WideBlock(*pair, 2 if index in (2, 4) else 1) for index, pair in enumerate(pairwise(widths)))
        )
        self.norm = nn.BatchNorm2d(widths[-1])
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.blocks(self.stem(x)))).mean(dim=(2, 3))

    def _groups(self) -> list[list[nn.Module]]:
        return [list(self.blocks[first : first + 2]) for first in (0, 2, 4)]

    def named_parts(self) -> list[NamedPart]:
        """`stem` and `group1` to `group3`."""
        first, second, third = self._groups()
        return [("stem", [self.stem]), ("group1", first), ("group2", second), ("group3", [*third, self.norm])]

    def map_levels(self) -> BackboneLevels:
        """The maps after each group, the last normalised and active."""
        first, second, third = self._groups()
        steps = (chain([self.stem, *first]), chain(second), chain([*third, self.norm, torch.relu]))
        return BackboneLevels(steps, lambda x: x.mean(dim=(2, 3)))
