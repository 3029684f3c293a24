"""The residual networks that torchvision has, layer for layer and name for name.

Importing torchvision takes nearly as long as importing torch, and a model that only answers needs nothing else of it.
"""

from __future__ import annotations

import torch
from torch import nn

from homefold.config.backbones import backbone_named

__all__ = ["ResNet"]

_PUBLISHED_CLASSES = 1000


class _BasicBlock(nn.Module):
    """Two 3×3 convolutions, the first with the stride, beside a shortcut; None passes the input on."""

    expansion = 1

    def __init__(self, channels: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        active: torch.Tensor = self.relu(out)
        return active


class _Bottleneck(nn.Module):
    """A 1×1, a 3×3 with the stride and a 1×1 convolution to four times as many channels, beside a shortcut."""

    expansion = 4

    def __init__(self, channels: int, width: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        active: torch.Tensor = self.relu(out)
        return active


class ResNet(nn.Module):
    """A residual network for large images without its last layer; `fc` passes features on.

    From the same seed it starts with the weights that torchvision's starts with.

    Args:
        block: what its layers are made of.
        blocks: how many in each of the four layers.
    """

    def __init__(self, block: type[_BasicBlock | _Bottleneck], blocks: tuple[int, int, int, int]) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = _layer(block, 64, 64, blocks[0], 1)
        self.layer2 = _layer(block, 64 * block.expansion, 128, blocks[1], 2)
        self.layer3 = _layer(block, 128 * block.expansion, 256, blocks[2], 2)
        self.layer4 = _layer(block, 256 * block.expansion, 512, blocks[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        # Made and thrown away: torchvision's draws random weights for it before those of the convolutions.
        nn.Linear(512 * block.expansion, _PUBLISHED_CLASSES)
        self.fc = nn.Identity()
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        z: torch.Tensor = self.fc(torch.flatten(self.avgpool(x), 1))
        return z


def _layer(
    block: type[_BasicBlock | _Bottleneck], channels: int, width: int, blocks: int, stride: int
) -> nn.Sequential:
    """`blocks` of them, the first with the stride."""
    wide = width * block.expansion
    downsample = None
    if stride != 1 or channels != wide:
        downsample = nn.Sequential(nn.Conv2d(channels, wide, 1, stride, bias=False), nn.BatchNorm2d(wide))
    first = block(channels, width, stride, downsample)
    return nn.Sequential(first, *(block(wide, width, 1, None) for _ in range(blocks - 1)))


for _name, _block, _blocks in (
    ("resnet18", _BasicBlock, (2, 2, 2, 2)),
    ("resnet34", _BasicBlock, (3, 4, 6, 3)),
    ("resnet50", _Bottleneck, (3, 4, 6, 3)),
    ("resnet101", _Bottleneck, (3, 4, 23, 3)),
):
    backbone_named(_name, pretrained=True)(lambda block=_block, blocks=_blocks: ResNet(block, blocks))
