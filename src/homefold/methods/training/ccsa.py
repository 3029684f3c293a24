"""CCSA: images of one class meet across domains, images of different classes keep a margin across domains."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from homefold.features.loss import cosine_normalise
from homefold.features.network import FeatureNet
from homefold.methods.recipe import DIGITS, PRETRAINED, SMALL, ZHOU_ON_PACS, Recipe
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["CCSA", "alignment_loss"]


@method_named(
    "ccsa",
    "CCSA",
    2017,
    "Motiian et al., ICCV 2017",
    "Pulls one class together and pushes different classes apart, across domains.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class CCSA(LearnerMethod):
    """L = (1 − α) CE + α (P + k N) / (1 + k) over pairs (i, j) of different domains.

    P is the mean of ‖z_i − z_j‖² over pairs of one class (semantic alignment), N that of max(0, m − ‖z_i − z_j‖)² over
    pairs of two classes (separation). The authors draw k = 3 pairs of two classes for each of one before training and
    take one mean over them; here every pair of the batch counts, and the two means are weighted so. z is scaled to unit
    length before distances are taken, where theirs is not: trained through raw distances at our learning rates a
    network shrinks its features to a point and forgets the classes. Steps are of SGD, as those of all methods here,
    where the authors have Adadelta, and no epoch is chosen on the target, as theirs is.

    In few-shot adaptation the few target images meet the source's: half of every batch is theirs, and this loss goes
    on.

    Figures to reach: 74.5 % on Digits-DG (Zhou et al., 2020); with 10 samples a class 95.71 % from USPS to MNIST and
    37.63 % from MNIST to SVHN.

    Null setting: `weight` 0. Cost of a step: that of Deep All, and the distances of all pairs.
    """

    least_domains = 2
    null = {"weight": 0.0}  # noqa: RUF012 - a constant
    recipes = {PRETRAINED: Recipe(ZHOU_ON_PACS), SMALL: Recipe(DIGITS)}  # noqa: RUF012 - a constant

    weight: float = tunable(0.25, 0.05, 0.75, most=1)
    """α: share of the alignment in the loss."""
    margin: float = tunable(1.0, 0.3, 1.5, most=2)
    """m: the distance that two classes should keep on the unit sphere."""
    negatives: float = tunable(3.0, 1, 10)
    """k: how many times pairs of two classes weigh as much as pairs of one."""

    def without_signal(self, sources: int, shots: int) -> str:
        return super().without_signal(sources + (shots > 0), shots)

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return _CCSALearner(net, task, self)


class _CCSALearner(Learner[CCSA]):
    capturable = True

    def loss(self, batch: Batch) -> torch.Tensor:
        settings = self.settings
        z = self.features(batch.images)
        loss = self.cross_entropy(self.classify(z), batch.labels)
        if not settings.weight:
            return loss
        unit = cosine_normalise(z.float())
        aligned = alignment_loss(unit, batch.labels, batch.domains, settings.margin, settings.negatives)
        return (1 - settings.weight) * loss + settings.weight * aligned

    def adaptation_loss(self, batch: Batch) -> torch.Tensor:
        return self.loss(batch)


def alignment_loss(
    z: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor, margin: float, negatives: float = 3.0
) -> torch.Tensor:
    """(P + k N) / (1 + k) of a batch `z: (n, d)` with the margin m; a kind of pair that is not there counts zero."""
    with torch.autocast(z.device.type, enabled=False):
        z = z.float()
        squared = (z[:, None] - z[None]).square().sum(dim=2)
        # The root has no slope at zero, where two images may well lie.
        distance = squared.clamp(min=1e-12).sqrt()
        across = domains[:, None] != domains[None]
        same = labels[:, None] == labels[None]
        aligned = _mean_over(squared, across & same)
        separated = _mean_over((margin - distance).clamp(min=0).square(), across & ~same)
        return (aligned + negatives * separated) / (1 + negatives)


def _mean_over(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)
