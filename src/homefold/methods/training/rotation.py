"""Rotation: Deep All that also learns by how many quarter turns an image was turned."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["QUARTER_TURNS", "Rotation", "RotationLearner", "rotation_loss", "turned"]

QUARTER_TURNS = 4


def turned(images: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Each of `images: (n, 3, h, h)` turned by its number of quarter turns in `turns: (n,)`, channels last."""
    every = torch.stack([torch.rot90(images, quarter, (2, 3)) for quarter in range(QUARTER_TURNS)])
    chosen = every[turns, torch.arange(len(images), device=images.device)]
    return chosen.contiguous(memory_format=torch.channels_last)


def rotation_loss(z: torch.Tensor, head: nn.Module, turns: torch.Tensor) -> torch.Tensor:
    """CE(h(z), r) in full precision. z: `(n, d)` of turned images; head: h, to four logits; turns: `(n,)` r."""
    with torch.autocast(z.device.type, enabled=False):
        return F.cross_entropy(head(z.float()), turns)


@method_named(
    "rotation",
    "Rotation",
    2020,
    "Sun et al., ICML 2020",
    "Deep All that also learns to tell by how many quarter turns an image was turned.",
)
@dataclass(frozen=True)
class Rotation(LearnerMethod):
    """CE(C(f(x)), y) + λ CE(h(f(turn_r(x))), r), r drawn from {0, 1, 2, 3}, h a linear layer on the shared feature.

    The joint training of test-time training, which wraps it by default; by itself it is the control without the
    updates at test time. The paper's h branches off before the last stages of the network; here it shares z, so that
    any network will do. Upright and turned images pass in turn, and batch normalisation keeps statistics of both.

    Null setting: `weight` 0. Cost of a step: twice that of Deep All.
    """

    null = {"weight": 0.0}  # noqa: RUF012 - a constant

    weight: float = tunable(1.0, 0.1, 1.0, log=True)
    """λ."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return RotationLearner(net, task, self)


class RotationLearner(Learner[Rotation]):
    """Deep All with a head that tells quarter turns."""

    recordable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Rotation) -> None:
        super().__init__(net, task, settings)
        self.rotation_head = nn.Linear(net.feature_dim, QUARTER_TURNS)

    def loss(self, batch: Batch) -> torch.Tensor:
        loss, weight = super().loss(batch), self.settings.weight
        if not weight:
            return loss
        turns = torch.randint(QUARTER_TURNS, (len(batch),), device=batch.images.device)
        return loss + weight * rotation_loss(self.net(turned(batch.images, turns)), self.rotation_head, turns)
