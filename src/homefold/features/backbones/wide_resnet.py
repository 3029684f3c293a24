"""The wide residual network of the paper's corruption benchmark."""

from __future__ import annotations

import torch
from torch import nn

from homefold.config.backbones import backbone_named
from homefold.errors import ConfigError
from homefold.features.stage_maps import BackboneStages, NamedPart, chain

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
    """WRN-depth-width for 32×32 images, without its last layer; depth 16 and width 4 give 256 features.

    Args:
        depth: 6n + 4 for n blocks a group.
        width: multiplies the 16, 32 and 64 channels of the three groups.
    """

    def __init__(self, depth: int = 16, width: int = 4) -> None:
        super().__init__()
        if (depth - 4) % 6:
            raise ConfigError(f"a wide residual network has depth 6n + 4; got {depth}.")
        self.stem = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        blocks: list[nn.Module] = []
        channels = 16
        for group, base in enumerate((16, 32, 64)):
            for index in range((depth - 4) // 6):
                blocks.append(_WideBlock(channels, base * width, 2 if group and not index else 1))
                channels = base * width
        self.blocks = nn.Sequential(*blocks)
        self.norm = nn.BatchNorm2d(channels)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.blocks(self.stem(x)))).mean(dim=(2, 3))

    def _groups(self) -> list[list[nn.Module]]:
        blocks = list(self.blocks)
        size = len(blocks) // 3
        return [blocks[index : index + size] for index in range(0, len(blocks), size)]

    def named_parts(self) -> list[NamedPart]:
        """`stem` and `group1` to `group3`."""
        first, second, third = self._groups()
        return [("stem", [self.stem]), ("group1", first), ("group2", second), ("group3", [*third, self.norm])]

    def map_stages(self) -> BackboneStages:
        """The maps after each group, the last normalised and active."""
        first, second, third = self._groups()
        steps = (chain([self.stem, *first]), chain(second), chain([*third, self.norm, torch.relu]))
        return BackboneStages(steps, lambda x: x.mean(dim=(2, 3)))
