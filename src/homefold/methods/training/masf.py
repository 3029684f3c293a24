"""MASF: after a step on some domains, classes of the other should relate as in them, and cluster over all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.methods.recipe import DIGITS_BY_DOMAIN, DOMAIN_BED_ON_PACS, PRETRAINED, SMALL, Recipe
from homefold.methods.registry import method_named
from homefold.methods.training.inner_step import called_with, learned_parameters, stepped
from homefold.methods.training.learner import Batch, Learner, LearningTask, domain_means
from homefold.methods.training.learner_method import LearnerMethod, tunable
from homefold.methods.training.triplets import next_semi_hard_loss, squared_distances

__all__ = ["Masf", "MasfLearner", "class_relations_loss"]

_TEMPERATURE = 2.0


@method_named(
    "masf",
    "MASF",
    2019,
    "Dou et al., NeurIPS 2019",
    "Steps on some domains, and asks that classes of the other then relate alike and cluster.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class Masf(LearnerMethod):
    """L = CE(θ) over all source domains but one, drawn at each step, + β₁ G(θ') + β₂ T(θ') with θ' = θ - α ∇CE(θ).

    G is the global alignment: the symmetric Kullback-Leibler divergence between the soft labels softmax(mean logits of
    class c / 2) of the domain left out and of each other one, in the mean over classes and these domains. T is the
    local one: the semi-hard triplet loss of a metric network's embeddings, over images of all domains. ∇CE counts as
    given, and the gradient of each tensor is clipped to norm 2 in this step.

    CE is a mean, as in the paper; in the step of their code it is a sum over images, which the clip nearly always cuts.
    The authors also clip the gradient of G and T, and let Adam step for it, for CE and for the metric network by
    itself; here all is one loss, one backward pass and one step. Their code is of AlexNet alone: Adam at 0.00001 for
    10,000 steps of 128 images a domain, over 500 epochs of PACS. Here pretrained networks train as DomainBed trains
    them, with α its rate, as the authors' α is theirs. The metric network is theirs, from z to 1024 and 256 values.

    Figures to reach on PACS: 82.67 % with ResNet-50, 75.21 % with AlexNet.

    Null setting: `relations` 0 and `triplet` 0. Cost of a step: about three times that of Deep All.
    """

    least_domains = 2
    null = {"relations": 0.0, "triplet": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(DOMAIN_BED_ON_PACS, {"optimiser": "adam", "inner_rate": 5e-5}),
        SMALL: Recipe(DIGITS_BY_DOMAIN),
    }

    relations: float = tunable(1.0, 0.1, 10, log=True)
    """β₁: weight of the global alignment."""
    triplet: float = tunable(0.005, 0.0005, 0.05, log=True)
    """β₂: weight of the local one."""
    inner_rate: float = tunable(0.05, 1e-5, 0.1, log=True)
    """α: rate of the step that is looked ahead; the authors' is the learning rate."""
    clip: float = tunable(2.0, 0.5, 10, log=True)
    """Largest norm of the gradient of a tensor in that step."""
    margin: float = tunable(10.0, 1, 20)
    """How much farther the nearest negative should lie, in squared distances."""
    optimiser: Literal["sgd", "adam"] = tunable("sgd", choices=("sgd", "adam"))
    """What steps: sgd with momentum, or adam."""

    def learner(self, net: FeatureNet, task: LearningTask) -> MasfLearner:
        return MasfLearner(net, task, self)


class MasfLearner(Learner[Masf]):
    """The losses of `Masf`."""

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Masf) -> None:
        super().__init__(net, task, settings)
        wide, narrow = nn.Linear(net.feature_dim, 1024), nn.Linear(1024, 256)
        self.metric = nn.Sequential(wide, nn.LeakyReLU(0.2), narrow, nn.LeakyReLU(0.2))

    def loss(self, batch: Batch) -> torch.Tensor:
        settings, domains = self.settings, self.task.num_domains
        if not (settings.relations or settings.triplet):
            return super().loss(batch)
        # Drawn on the CPU, which waits for no device.
        left_out = int(torch.randint(domains, ()))
        losses = F.cross_entropy(self.logits(batch.images).float(), batch.labels, reduction="none")
        means, there = domain_means(losses, batch.domains, domains)
        trained = there & (torch.arange(domains, device=there.device) != left_out)
        total = (means * trained).sum() / trained.sum().clamp(min=1)
        parameters = {name: value for name, value in learned_parameters(self).items() if not name.startswith("metric.")}
        ahead = stepped(total, parameters, settings.inner_rate, clip=settings.clip)
        z, logits = called_with(self, ahead, batch.images)
        with torch.autocast(z.device.type, enabled=False):
            if settings.relations:
                cells = batch.domains * self.task.num_classes + batch.labels
                total = total + settings.relations * class_relations_loss(
                    logits.float(), cells, (domains, self.task.num_classes), left_out
                )
            if settings.triplet:
                embedded = self.metric(z.float())
                distances = squared_distances(embedded, embedded)
                total = total + settings.triplet * next_semi_hard_loss(distances, batch.labels, settings.margin)
        return total


def class_relations_loss(
    logits: torch.Tensor, cells: torch.Tensor, shape: tuple[int, int], left_out: int
) -> torch.Tensor:
    """How far the classes' soft labels in the domain `left_out` are from those in each other one.

    ½ (KL(p ‖ q) + KL(q ‖ p)), summed over the classes that both have, over the number of classes, in the mean over the
    other domains.

    Args:
        logits: `(n, classes)`.
        cells: `(n,)` domain · classes + label.
        shape: domains and classes.
        left_out: one of the domains.
    """
    member = F.one_hot(cells, shape[0] * shape[1]).to(logits.dtype)
    sizes = member.sum(dim=0)
    means = (member.T @ logits) / sizes.clamp(min=1)[:, None]
    log_soft = F.log_softmax(means / _TEMPERATURE, dim=1).view(*shape, -1)
    difference = log_soft - log_soft[left_out]
    divergence = ((log_soft.exp() - log_soft[left_out].exp()) * difference).sum(dim=2) / 2
    there = (sizes > 0).view(shape)
    return (divergence * (there & there[left_out])).sum() / (shape[1] * max(1, shape[0] - 1))
