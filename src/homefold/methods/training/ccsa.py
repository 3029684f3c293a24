"""CCSA: images of one class meet across domains, images of different classes keep a margin across domains."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from homefold.features.loss import cosine_normalise
from homefold.features.network import FeatureNet
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
    """L = (1 − α) CE + α (L_SA + L_S) over pairs (i, j) of different domains, each term a mean over its pairs.

    L_SA = ½‖z_i − z_j‖² for pairs of one class (semantic alignment); L_S = ½ max(0, m − ‖z_i − z_j‖)² for pairs of
    two classes (separation). The paper draws pairs before training; here every pair of the batch counts. z is scaled to
    unit length before distances are taken: trained through raw distances at our learning rates a network shrinks its
    features to a point and forgets the classes.

    Null setting: `weight` 0. Cost of a step: that of Deep All, and the distances of all pairs.
    """

    least_domains = 2
    null = {"weight": 0.0}  # noqa: RUF012 - a constant

    weight: float = tunable(0.25, 0.05, 0.75, most=1)
    """α: share of the alignment in the loss."""
    margin: float = tunable(1.0, 0.3, 1.5, most=2)
    """m: the distance that two classes should keep on the unit sphere."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return _CCSALearner(net, task, self)


class _CCSALearner(Learner[CCSA]):
    recordable = True

    def loss(self, batch: Batch) -> torch.Tensor:
        weight = self.settings.weight
        z = self.features(batch.images)
        loss = self.cross_entropy(self.classify(z), batch.labels)
        if not weight:
            return loss
        unit = cosine_normalise(z.float())
        return (1 - weight) * loss + weight * alignment_loss(unit, batch.labels, batch.domains, self.settings.margin)


def alignment_loss(z: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor, margin: float) -> torch.Tensor:
    """L_SA + L_S of a batch `z: (n, d)` with the margin m; a kind of pair that it does not hold counts zero."""
    with torch.autocast(z.device.type, enabled=False):
        z = z.float()
        squared = (z[:, None] - z[None]).square().sum(dim=2)
        # The root has no slope at zero, where two images may well lie.
        distance = squared.clamp(min=1e-12).sqrt()
        across = domains[:, None] != domains[None]
        same = labels[:, None] == labels[None]
        aligned = _mean_over(squared / 2, across & same)
        separated = _mean_over((margin - distance).clamp(min=0).square() / 2, across & ~same)
        return aligned + separated


def _mean_over(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return (values * mask).sum() / mask.sum().clamp(min=1)
