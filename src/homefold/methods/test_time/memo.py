"""MEMO: the whole network moved, for one image, towards agreement of its answers on varied copies of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.classifier.entropy import marginal_entropy
from homefold.methods.base import TrainedMethod
from homefold.methods.recipe import PRETRAINED, SMALL, Recipe
from homefold.methods.registry import method_named
from homefold.methods.test_time.per_image import PerImage, PerImageMethod
from homefold.methods.test_time.wrapping import reached_parameters
from homefold.methods.training.learner_method import tunable
from homefold.stages.task import TrainingTask

__all__ = ["Memo", "with_mixed_statistics"]


@method_named(
    "memo",
    "MEMO",
    2022,
    "Zhang et al., NeurIPS 2022",
    "Before each answer, one step towards sure and equal answers on varied copies of the image.",
    touches_target=True,
    wraps="deep-all",
)
@dataclass(frozen=True)
class Memo(PerImageMethod):
    """ℓ(x; θ) = H(p̄), p̄ = (1/B) Σ_b p(· | a_b(x); θ); one SGD step on all parameters, then p(· | x; θ_x).

    Batch normalisation uses means and variances (N s + t) / (N + 1), where s are those of the training and t those of
    what passes it: the copies, then the image alone. With N 0 they are those of the training.

    The authors' recipe has a rate of 0.00025, 64 copies and N 16 for networks pretrained on ImageNet, 0.005, 32 and no
    N for small ones. The copies a_b(x) are varied as the training images were, where the authors take AugMix: what a
    network was trained on it should answer alike, and all is drawn on the device at once.

    Null setting: learning_rate 0 and prior 0.
    """

    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(own={"learning_rate": 2.5e-4, "copies": 64, "prior": 16.0}),
        SMALL: Recipe(own={"learning_rate": 0.005, "copies": 32, "prior": 0.0}),
    }

    learning_rate: float = tunable(0.005, 2.5e-4, 1e-2, log=True)
    """η of the step."""
    copies: int = tunable(32, choices=(8, 16, 32, 64), least=1)
    """B: varied copies of the image."""
    steps: int = tunable(1, choices=(1, 2))
    """Steps for each image."""
    prior: float = tunable(0.0, 0, 64)
    """N: how many times the training's statistics count against those of what passes; 0 for the training's alone."""

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Agreed(self, trained, task)


class _Agreed(PerImage[Memo]):
    def __init__(self, method: Memo, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        if method.prior:
            self.network.features = with_mixed_statistics(self.network.features, method.prior)

    def adapted(self, image: torch.Tensor) -> list[torch.Tensor]:
        layer = self.network.layer.requires_grad_(True)
        return [*reached_parameters(self.network.features, image), *layer.parameters()]

    def loss(self, varied: torch.Tensor) -> torch.Tensor:
        return marginal_entropy(self.network.layer(self.network.features(varied).float()))


def with_mixed_statistics(module: nn.Module, prior: float) -> nn.Module:
    """`module`, changed in place, whose batch normalisation counts what passes once against `prior` times its own."""
    if isinstance(module, nn.BatchNorm2d):
        return _MixedStatistics(module, prior)
    for name, child in module.named_children():
        setattr(module, name, with_mixed_statistics(child, prior))
    return module


class _MixedStatistics(nn.Module):
    """Batch normalisation in eval mode by the mean of the training's statistics and those of what passes."""

    def __init__(self, norm: nn.BatchNorm2d, prior: float) -> None:
        super().__init__()
        self.norm, self.share = norm, 1 / (prior + 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        norm, seen = self.norm, x.detach()
        assert norm.running_mean is not None
        assert norm.running_var is not None
        # Of a single value there is no unbiased variance.
        several = x.numel() > x.shape[1]
        variance, mean = torch.var_mean(seen, dim=(0, 2, 3), correction=int(several))
        mean = norm.running_mean.lerp(mean, self.share)
        variance = norm.running_var.lerp(variance, self.share)
        return F.batch_norm(x, mean, variance, norm.weight, norm.bias, training=False, eps=norm.eps)
