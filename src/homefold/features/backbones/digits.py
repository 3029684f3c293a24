"""The paper's small network for digits."""

from __future__ import annotations

from torch import nn

from homefold.config.backbones import backbone_named
from homefold.features.level_maps import BackboneLevels, NamedPart, chain, cut_after, named_cuts

__all__ = ["DigitsNet"]

_PAPER = {
    "preprocessing.image_size": 32,
    "features.weights": "none",
    "features.head": "none",
    "features.feature_dim": 0,
    "features.learning_rate": 0.05,
    "features.epochs": 100,
    "manifold.epochs": 150,
    "classifier.epochs": 15,
}


@backbone_named("digits", paper=_PAPER)
class DigitsNet(nn.Sequential):
    """The small network for 32×32 digits: four blocks of 3×3 convolution, ReLU and 2×2 max-pooling, then flatten.

    At 32×32 and width 64 its output has 256 values, none of them negative: under L_A it needs a head, since
    features of one sign cannot be pushed apart.

    Args:
        width: channels of every block.
        batch_norm: normalise after each convolution (not in the paper; trains faster from scratch).
    """

    def __init__(self, width: int = 64, *, batch_norm: bool = False) -> None:
        layers: list[nn.Module] = []
        channels = 3
        for _ in range(4):
            # Pooling first gives the same values as ReLU first and leaves a quarter of the pixels to work on.
            layers += [nn.Conv2d(channels, width, 3, padding=1, bias=not batch_norm), nn.MaxPool2d(2)]
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU())
            channels = width
        super().__init__(*layers, nn.Flatten())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def named_parts(self) -> list[NamedPart]:
        """`block1` to `block4`."""
        return named_cuts(self, nn.ReLU, "block")

    def map_levels(self) -> BackboneLevels:
        """The maps after each block, active."""
        levels, rest = cut_after(self, nn.ReLU)
        return BackboneLevels(tuple(map(chain, levels)), chain(rest))


@backbone_named("digits-bn", paper=_PAPER)
def _with_batch_norm() -> DigitsNet:
    return DigitsNet(batch_norm=True)
