"""torchvision's AlexNet without its last layer."""

from __future__ import annotations

from torch import nn

from homefold.config.backbones import backbone_named

__all__ = ["build_alexnet"]


@backbone_named(
    "alexnet",
    pretrained=True,
    # It has no batch norm, and diverges at 0.03 already.
    rates={"default": 0.003, "thorough": 0.003},
    paper={"manifold.latent_dim": 64, "features.epochs": 250, "features.feature_dim": 1024, "classifier.epochs": 30},
)
def build_alexnet() -> nn.Module:
    """AlexNet, 4,096 features."""
    import torchvision

    model: nn.Module = torchvision.models.alexnet(weights=None)
    model.classifier = model.classifier[:-1]  # type: ignore[index]
    return model
