"""FADA: in few-shot adaptation a discriminator of pairs tells domains and classes apart, and features confuse it."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.methods.recipe import DIGITS, PRETRAINED, SMALL, ZHOU_ON_PACS, Recipe
from homefold.methods.registry import method_named
from homefold.methods.training.inner_step import frozen_call
from homefold.methods.training.learner import Batch, Learner, LearningTask, ParameterGroup
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["Fada", "FadaLearner", "mean_surprise", "pair_groups"]

_GROUPS = 4


@method_named(
    "fada",
    "FADA",
    2017,
    "Motiian et al., NeurIPS 2017",
    "Brings a few labelled target images to the source's, pair by pair, by confusing a discriminator.",
)
@dataclass(frozen=True)
class Fada(LearnerMethod):
    """Source images train as Deep All. Adaptation minimises CE + γ/2 (H(D(G2), 1) + H(D(G4), 3)) + Σ_g H(D(G_g), g)/4.

    G1 to G4 are the pairs of features (source, source) and (source, target) of one class, then the same of two classes.
    H(D(G), g) is the mean cross entropy with which the discriminator D takes pairs of G for those of the group g. D
    learns the last term on given features; the features learn the rest with D held fixed, so that target pairs look
    like source pairs. At first D learns alone. Half of every batch is the target's, so CE is half the sum of the
    authors' two, and γ is halved with it.

    The authors draw as many pairs of each group; here every pair of the batch counts, and groups weigh the same. They
    let D and the features step in turns; here both step at once, which takes one backward pass in place of two. Steps
    are of SGD, as those of all methods here. No authors' code was found; γ is that of public ports, which found none in
    the paper.

    Figures to reach with 7 samples a class: 91.50 % from USPS to MNIST, 47.00 % from MNIST to SVHN, 87.20 % from SVHN
    to MNIST.

    Null setting: `weight` 0, where source and target images are pooled. Cost of a step: that of Deep All, and a small
    network on all pairs.
    """

    null = {"weight": 0.0}  # noqa: RUF012 - a constant
    recipes = {PRETRAINED: Recipe(ZHOU_ON_PACS), SMALL: Recipe(DIGITS)}  # noqa: RUF012 - a constant

    weight: float = tunable(0.2, 0.05, 2.0, log=True)
    """γ: weight of what the features do to confuse the discriminator."""
    warm_up: float = tunable(0.2, 0.0, 0.5, most=1)
    """Share of the adaptation in which the discriminator learns alone."""
    rate: float = tunable(1.0, 0.1, 10, log=True)
    """Learning rate of the discriminator, as a multiple of that of the network."""
    hidden: int = tunable(64, choices=(32, 64, 128), least=1)
    """Units of each of its two hidden layers."""

    def without_signal(self, sources: int, shots: int) -> str:
        if shots:
            return ""
        return (
            f"{self.own_name} brings labelled target images to the source's, and there are none here: nothing would be "
            f"left of it but Deep All. Leave it out, or run it in few-shot adaptation."
        )

    def learner(self, net: FeatureNet, task: LearningTask) -> FadaLearner:
        return FadaLearner(net, task, self)


class FadaLearner(Learner[Fada]):
    """Deep All on the source; the losses of `Fada` where there are images to adapt to."""

    capturable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Fada) -> None:
        super().__init__(net, task, settings)
        width = settings.hidden
        self.discriminator = nn.Sequential(
            nn.Linear(2 * net.feature_dim, width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.ReLU(),
            nn.Linear(width, _GROUPS),
        )

    def parameter_groups(self) -> list[ParameterGroup]:
        rest = [*self.net.parameters(), *self.classifier.parameters()]
        return [ParameterGroup(rest), ParameterGroup(list(self.discriminator.parameters()), self.settings.rate)]

    def adaptation_loss(self, batch: Batch) -> torch.Tensor:
        z = self.features(batch.images)
        loss = self.cross_entropy(self.classify(z), batch.labels)
        if not self.settings.weight:
            return loss
        groups = pair_groups(batch.labels, batch.domains == self.task.num_domains)
        with torch.autocast(z.device.type, enabled=False):
            z = z.float()
            told = F.log_softmax(self.discriminator(_pairs(z.detach())), dim=2)
            learned = torch.stack([mean_surprise(told, groups, group, group) for group in range(_GROUPS)]).mean()
            if batch.progress < self.settings.warm_up:
                return learned
            taken = F.log_softmax(frozen_call(self.discriminator, _pairs(z)), dim=2)
            confused = mean_surprise(taken, groups, 1, 0) + mean_surprise(taken, groups, 3, 2)
            return loss + self.settings.weight / 2 * confused + learned


def _pairs(z: torch.Tensor) -> torch.Tensor:
    """`(n, n, 2 d)`: z_i beside z_j."""
    n, d = z.shape
    return torch.cat([z[:, None].expand(n, n, d), z[None].expand(n, n, d)], dim=2)


def pair_groups(labels: torch.Tensor, of_target: torch.Tensor) -> torch.Tensor:
    """The group of every pair (i, j), `(n, n)`: 0 for G1 to 3 for G4, and -1 where i is of the target or is j.

    >>> pair_groups(torch.tensor([0, 0, 1]), torch.tensor([False, True, False]))
    tensor([[-1,  1,  2],
            [-1, -1, -1],
            [ 2,  3, -1]])
    """
    groups = 2 * (labels[:, None] != labels[None]).long() + of_target[None]
    none = of_target[:, None] | torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    return groups.masked_fill(none, -1)


def mean_surprise(told: torch.Tensor, groups: torch.Tensor, group: int, as_group: int) -> torch.Tensor:
    """The mean of -log p(as_group) over the pairs of `group`; zero where there is none. told: `(n, n, 4)` logs."""
    member = groups == group
    return -(told[..., as_group] * member).sum() / member.sum().clamp(min=1)
