"""f_θ: pixels in [0, 1] to a feature z, as normalisation, backbone and head."""

from __future__ import annotations

import copy

import torch
from torch import nn

from homefold.config.features import FeatureConfig, Head
from homefold.config.normalisation import STATISTICS, Normalisation
from homefold.errors import ConfigError
from homefold.features.backbones import build_backbone, output_dim
from homefold.runtime.seeding import isolated_seed

__all__ = ["FeatureNet", "build_feature_net", "build_head"]

_HIDDEN_LAYERS = {"mlp": 1, "office-home": 2}


def build_head(kind: Head, dim_in: int, dim_out: int) -> nn.Module:
    """What stands between the backbone and z.

    Args:
        kind: `none` passes the backbone's output on; `linear` is one layer (the paper's parameter count);
            `mlp` is the authors' Linear(d, d) – LeakyReLU – Linear(d, out); `office-home` adds the two fully
            connected layers that the paper adds there, each followed by a LeakyReLU, before the linear layer.
        dim_in: features of the backbone.
        dim_out: features of z.
    """
    if kind == "none":
        if dim_in != dim_out:
            raise ConfigError(f"head none passes on the backbone's {dim_in} features; feature_dim asks for {dim_out}.")
        return nn.Identity()
    if kind == "linear":
        return nn.Linear(dim_in, dim_out)
    if kind not in _HIDDEN_LAYERS:
        raise ConfigError(f"there is no head {kind!r}; choose none, linear, mlp or office-home.")
    hidden: list[nn.Module] = []
    for _ in range(_HIDDEN_LAYERS[kind]):
        hidden += [nn.Linear(dim_in, dim_in), nn.LeakyReLU(0.2)]
    return nn.Sequential(*hidden, nn.Linear(dim_in, dim_out))


class FeatureNet(nn.Module):
    """f_θ : `(n, 3, h, w)` pixels in [0, 1] → `(n, feature_dim)` features.

    Args:
        backbone: any module that turns normalised images into `(n, d)`.
        image_size: `(height, width)` it will be given.
        head: see `build_head`.
        feature_dim: size of z; 0 keeps the backbone's own size.
        normalisation: the statistics that the backbone expects its input to be normalised with.

    >>> from homefold.features.backbones import build_backbone
    >>> net = FeatureNet(build_backbone("digits"), (32, 32), head="linear", feature_dim=64, normalisation="half")
    >>> net(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 64])
    """

    mean: torch.Tensor
    std: torch.Tensor

    def __init__(
        self,
        backbone: nn.Module,
        image_size: tuple[int, int],
        *,
        head: Head = "mlp",
        feature_dim: int = 256,
        normalisation: Normalisation = "imagenet",
    ) -> None:
        super().__init__()
        self.backbone = backbone
        self.backbone_dim = output_dim(backbone, image_size)
        self.feature_dim = feature_dim or self.backbone_dim
        self.head = build_head(head, self.backbone_dim, self.feature_dim)
        mean, std = STATISTICS[normalisation]
        self.register_buffer("mean", torch.tensor(mean).view(1, 3, 1, 1), persistent=False)
        self.register_buffer("std", torch.tensor(std).view(1, 3, 1, 1), persistent=False)

    def pooled(self, images: torch.Tensor) -> torch.Tensor:
        """The backbone's output `(n, backbone_dim)`, which the head makes z of."""
        pooled: torch.Tensor = self.backbone((images - self.mean) / self.std)
        return pooled

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        z: torch.Tensor = self.head(self.pooled(images))
        return z


def build_feature_net(
    config: FeatureConfig,
    image_size: tuple[int, int],
    *,
    normalisation: Normalisation,
    seed: int,
    pretrained: bool,
    backbone: nn.Module | None = None,
) -> FeatureNet:
    """The network that `config` describes, before stage 1.

    Args:
        config: backbone, weights, head and feature size.
        image_size: `(height, width)` of its input.
        normalisation: statistics of its input.
        seed: of what starts at random.
        pretrained: start from the configured weights; False when a saved state will be loaded into it.
        backbone: used instead of the configured one; a copy of it is trained, so that it can serve again.
    """
    with isolated_seed(seed, "network"):
        if backbone is None:
            backbone = build_backbone(config.backbone, config.weights if pretrained else "none", image_size)
        else:
            backbone = copy.deepcopy(backbone).requires_grad_(True)
        return FeatureNet(
            backbone, image_size, head=config.head, feature_dim=config.feature_dim, normalisation=normalisation
        )
