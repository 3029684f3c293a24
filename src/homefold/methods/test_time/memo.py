"""MEMO: the whole network moved, for one image, towards agreement of its answers on varied copies of it."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from homefold.methods.base import TrainedMethod
from homefold.methods.entropy import marginal_entropy
from homefold.methods.registry import method_named
from homefold.methods.test_time.per_image import PerImage, PerImageMethod
from homefold.methods.test_time.wrapping import reached_parameters
from homefold.methods.training.learner_method import tunable
from homefold.stages.task import TrainingTask

__all__ = ["Memo"]


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

    The copies a_b(x) are varied as the training images were (the paper's are varied by AugMix). Batch normalisation
    keeps the statistics of the training.

    Null setting: learning_rate 0.
    """

    learning_rate: float = tunable(0.005, 2.5e-4, 1e-2, log=True)
    """η of the step."""
    copies: int = tunable(32, choices=(8, 16, 32, 64), least=1)
    """B: varied copies of the image."""
    steps: int = tunable(1, choices=(1, 2))
    """Steps for each image."""

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Agreed(self, trained, task)


class _Agreed(PerImage[Memo]):
    def adapted(self, image: torch.Tensor) -> list[torch.Tensor]:
        layer = self.network.layer.requires_grad_(True)
        return [*reached_parameters(self.network.features, image), *layer.parameters()]

    def loss(self, varied: torch.Tensor) -> torch.Tensor:
        return marginal_entropy(self.network.layer(self.network.features(varied).float()))
