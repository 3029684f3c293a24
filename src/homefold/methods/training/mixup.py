"""Mixup: images and labels blended with those of another domain."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch.nn import functional as F

from homefold.features.mix_style import beta_quantiles, draw_beta
from homefold.features.network import FeatureNet
from homefold.methods.registry import method_named
from homefold.methods.training.domain_bed import DomainBedMethod
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import tunable

__all__ = ["Mixup", "of_next_domain"]


@method_named(
    "mixup",
    "Mixup",
    2018,
    "Zhang et al., ICLR 2018; Wang et al., ICASSP 2020",
    "Trains on blends of images and labels of two domains.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class Mixup(DomainBedMethod):
    """L = mean_i λ_i CE(h(x̃_i), y_i) + (1 − λ_i) CE(h(x̃_i), y_j), with x̃_i = λ_i x_i + (1 − λ_i) x_j.

    The domains form a ring, drawn anew at each step, and j is drawn among the images of the domain after that of i (of
    any, where the batch lacks it). All images of a domain have the same λ, from Beta(α, α). So DomainBed, which also
    uses every image once as the other. Figure to reach: 84.6 % on PACS with ResNet-50 in DomainBed, where its Deep All
    has 85.5 %.

    Null setting: `alpha` 0. Cost of a step: that of Deep All.
    """

    null = {"alpha": 0.0}  # noqa: RUF012 - a constant

    alpha: float = tunable(0.2, 0.1, 1, log=True)
    """α: small values keep most of one of the two images; with 0 images are as they are."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return _MixupLearner(net, task, self)


class _MixupLearner(Learner[Mixup]):
    def __init__(self, net: FeatureNet, task: LearningTask, settings: Mixup) -> None:
        super().__init__(net, task, settings)
        if settings.alpha:
            self.register_buffer("quantiles", beta_quantiles(settings.alpha), persistent=False)

    def loss(self, batch: Batch) -> torch.Tensor:
        if not self.settings.alpha:
            return super().loss(batch)
        partner, count = of_next_domain(batch.domains, self.task.num_domains), self.task.num_domains
        # On the device: a draw on the CPU would make the step wait for it.
        share = draw_beta(torch.rand(count, device=batch.images.device), self.get_buffer("quantiles"))[batch.domains]
        logits = self.logits(torch.lerp(batch.images[partner], batch.images, share.view(-1, 1, 1, 1))).float()
        own = F.cross_entropy(logits, batch.labels, reduction="none")
        its = F.cross_entropy(logits, batch.labels[partner], reduction="none")
        return torch.lerp(its, own, share).mean()


def of_next_domain(domains: torch.Tensor, count: int) -> torch.Tensor:
    """`(n,)` for each of `domains: (n,)` a place drawn among those of the next of `count` domains in a drawn ring.

    Of any domain where the next is not there.
    """
    ring = torch.rand(count, device=domains.device).argsort()
    after = torch.empty_like(ring).scatter_(0, ring, ring.roll(-1))[domains]
    drawn = torch.rand(len(domains), len(domains), device=domains.device)
    return (drawn + (after[:, None] == domains[None])).argmax(dim=1)
