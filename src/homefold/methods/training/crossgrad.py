"""CrossGrad: the label net trains on images moved towards other domains, the domain net on images of other labels."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.methods.recipe import DIGITS, PRETRAINED, SMALL, ZHOU_ON_PACS, Recipe
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["CrossGrad", "perturbed"]


@method_named(
    "crossgrad",
    "CrossGrad",
    2018,
    "Shankar et al., ICLR 2018",
    "Trains on images moved along the gradient of a domain classifier.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class CrossGrad(LearnerMethod):
    """L = (1 − α_l) J_l(x, y) + α_l J_l(x_d, y) + (1 − α_d) J_d(x, d) + α_d J_d(x_l, d).

    J_l and J_d are the mean cross entropies of the label net and of a domain net of the same form;
    x_d = x + ε_l ∇_x J_d(x, d) are the images moved where their domain is less certain, and x_l = x + ε_d ∇_x J_l(x, y)
    where their label is. The moved images are constants. Gradients are those of the mean over the batch, cut to
    ±`clip`. The paper also feeds the domain net's features to the label net; here, as in later comparisons, the nets
    are apart: what a label net is told of the domain does not exist for an unseen one.

    Gradients and moves are of normalised images, as in the code of Zhou et al. The gradient of a mean over a batch is
    small, and so are the moves. The paper's code takes ε 10 for its small network, Zhou et al. take 1, as here.

    Figures to reach, of Zhou et al. (2020): 75.8 % on Digits-DG, 80.7 % on PACS with ResNet-18. Ours, moved along each
    image's own gradient, a hundred times as far: 0.6 above our Deep All on Digits-DG.

    Null setting: `label_share` 0, where the domain net has no use and is not trained. Cost of a step: about five times
    that of Deep All (two networks, two passes each, and two gradients of the input).
    """

    least_domains = 2
    null = {"label_share": 0.0}  # noqa: RUF012 - a constant
    recipes = {PRETRAINED: Recipe(ZHOU_ON_PACS), SMALL: Recipe(DIGITS)}  # noqa: RUF012 - a constant

    label_share: float = tunable(0.5, 0.1, 0.9, most=1)
    """α_l: share of moved images in the label loss."""
    domain_share: float = tunable(0.5, 0.1, 0.9, most=1)
    """α_d: share of moved images in the domain loss."""
    label_step: float = tunable(1.0, 0.1, 10, log=True)
    """ε_l: how far the label net's images move."""
    domain_step: float = tunable(1.0, 0.1, 10, log=True)
    """ε_d: how far the domain net's images move."""
    clip: float = tunable(0.1, 0.01, 1, log=True)
    """The largest value of a gradient."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return _CrossGradLearner(net, task, self)


class _CrossGradLearner(Learner[CrossGrad]):
    capturable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: CrossGrad) -> None:
        super().__init__(net, task, settings)
        self.domain_net = copy.deepcopy(net)
        self.domain_classifier = nn.Linear(net.feature_dim, task.num_domains)

    def domain_logits(self, images: torch.Tensor) -> torch.Tensor:
        """Logits `(n, domains)` of images."""
        z = self.domain_net(images)
        with torch.autocast(z.device.type, enabled=False):
            logits: torch.Tensor = self.domain_classifier(z.float())
            return logits

    def loss(self, batch: Batch) -> torch.Tensor:
        settings = self.settings
        if not settings.label_share:
            return super().loss(batch)
        images = batch.images.detach().requires_grad_()
        label_loss = self.cross_entropy(self.logits(images), batch.labels)
        domain_loss = F.cross_entropy(self.domain_logits(images), batch.domains)
        of_other_domains = perturbed(images, domain_loss, settings.label_step, settings.clip, self.net.std)
        of_other_labels = perturbed(images, label_loss, settings.domain_step, settings.clip, self.net.std)
        moved_label_loss = self.cross_entropy(self.logits(of_other_domains), batch.labels)
        moved_domain_loss = F.cross_entropy(self.domain_logits(of_other_labels), batch.domains)
        label_loss = torch.lerp(label_loss, moved_label_loss, settings.label_share)
        return label_loss + torch.lerp(domain_loss, moved_domain_loss, settings.domain_share)


def perturbed(images: torch.Tensor, loss: torch.Tensor, step: float, clip: float, unit: torch.Tensor) -> torch.Tensor:
    """`x + step · clip(∇ loss)` as a constant, x and ∇ in units of `unit`, in which a network sees the images.

    The graph of the loss, computed from the images, is kept.
    """
    (gradient,) = torch.autograd.grad(loss, images, retain_graph=True)
    return images.detach() + step * unit * (unit * gradient).clamp(-clip, clip)
