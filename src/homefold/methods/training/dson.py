"""DSON: every source domain has its own normalisation, a learned mixture of batch and instance statistics."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass

import torch
from torch import nn

from homefold.errors import ConfigError
from homefold.features.network import FeatureNet
from homefold.methods.recipe import COLOUR_AND_CROP, DIGITS_BY_DOMAIN, PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["DomainNorm", "Dson", "DsonLearner"]

_START = 0.5


@method_named(
    "dson",
    "DSON",
    2020,
    "Seo et al., ECCV 2020",
    "Normalises each source domain by its own mixture of batch and instance statistics; answers are averaged.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class Dson(LearnerMethod):
    """L = CE with every batch normalisation replaced by γ_d (x - μ) / √(σ² + ε) + β_d, d the domain of the image.

    μ = w_d μ_d + (1 - w_d) μ_x and σ² = w_d σ²_d + (1 - w_d) σ²_x mix the statistics of the batch's images of d (in
    answers, their running means) with those of the image itself. γ_d, β_d and the share w_d in (0, 1) are learned for
    each layer and domain; the rest of the network and the classifier are shared. The answer for any image is the mean
    of the logits that the domains' branches give, which here is the classifier at the mean of their features.

    γ and β begin as the network's for all domains, w at one half. w is the sigmoid of what is learned. The paper's
    first version shares w over all layers, its second learns it for each, as here. No authors' code was found: their
    rates are not known here, and pretrained networks train as JiGen's, in batches of 32 images of each of three
    domains. Adaptation and images of one domain are normalised by all branches alike.

    Figures to reach on PACS: 85.11 % with ResNet-18, 86.64 % with ResNet-50.

    Null setting: `layers` 0. Cost of a step: that of Deep All, and the statistics; an answer costs one pass a domain.
    """

    null = {"layers": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(
            Training(0.001, 30, 96, milestones=(0.8,), sampling="domains", augmentation=COLOUR_AND_CROP)
        ),
        SMALL: Recipe(DIGITS_BY_DOMAIN),
    }

    layers: float = tunable(1.0, 0.25, 1.0, most=1)
    """Share of the network's batch normalisations that are replaced, from the images on."""

    def learner(self, net: FeatureNet, task: LearningTask) -> DsonLearner:
        return DsonLearner(net, task, self)


class _CurrentDomains:
    """The domain of each image that is on its way through the network."""

    def __init__(self) -> None:
        self.of_images = torch.zeros(0, dtype=torch.long)


class DomainNorm(nn.Module):
    """The normalisation of `Dson` in the place of one batch normalisation.

    Args:
        norm: what it takes the place of and begins as, but for the mixture.
        domains: how many there are.
        current: where the domain of each image stands.
    """

    running_mean: torch.Tensor
    running_var: torch.Tensor

    def __init__(self, norm: nn.BatchNorm2d, domains: int, current: _CurrentDomains) -> None:
        super().__init__()
        if norm.running_mean is None or norm.running_var is None or not norm.affine:
            raise ConfigError("dson replaces batch normalisation that has weights and running statistics.")
        self.current, self.eps = current, norm.eps
        self.momentum = 0.1 if norm.momentum is None else norm.momentum
        self.weight = nn.Parameter(norm.weight.detach().repeat(domains, 1))
        self.bias = nn.Parameter(norm.bias.detach().repeat(domains, 1))
        self.mixture = nn.Parameter(torch.full((domains,), math.log(_START / (1 - _START))))
        self.register_buffer("running_mean", norm.running_mean.repeat(domains, 1))
        self.register_buffer("running_var", norm.running_var.repeat(domains, 1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """x: `(n, c, h, w)`."""
        domains = self.current.of_images
        with torch.autocast(x.device.type, enabled=False):
            own_mean, own_var = x.float().mean(dim=(2, 3)), x.float().var(dim=(2, 3), correction=0)
            mean, var = self.running_mean, self.running_var
            if self.training:
                mean, var = self._of_batch(own_mean, own_var, domains, x.shape[2] * x.shape[3])
            share = torch.sigmoid(self.mixture)[domains, None]
            mean = share * mean[domains] + (1 - share) * own_mean
            var = share * var[domains] + (1 - share) * own_var
            scale = self.weight[domains] * torch.rsqrt(var + self.eps)
            shift = self.bias[domains] - mean * scale
            normalised = torch.addcmul(shift[:, :, None, None], x.float(), scale[:, :, None, None])
        return normalised.to(x.dtype)

    def _of_batch(
        self, own_mean: torch.Tensor, own_var: torch.Tensor, domains: torch.Tensor, places: int
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and variance `(domains, c)` of the batch's images of each domain; the running ones follow them."""
        member = nn.functional.one_hot(domains, len(self.weight)).to(own_mean.dtype).T
        images = member.sum(dim=1, keepdim=True)
        mean = member @ own_mean / images.clamp(min=1)
        # Of all values of a domain: the spread within images, and that of their means.
        var = member @ (own_var + (own_mean - mean[domains]).square()) / images.clamp(min=1)
        with torch.no_grad():
            values = images * places
            unbiased = var * (values / (values - 1).clamp(min=1))
            follow = self.momentum * (images > 0).to(mean.dtype)
            self.running_mean.lerp_(mean, follow.expand_as(mean))
            self.running_var.lerp_(unbiased, follow.expand_as(var))
        return mean, var


class DsonLearner(Learner[Dson]):
    """The network of `Dson`, a changed copy of the one it is given, and its loss."""

    capturable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Dson) -> None:
        super().__init__(copy.deepcopy(net), task, settings)
        places = [(name, module) for name, module in self.net.named_modules() if type(module) is nn.BatchNorm2d]
        if not places:
            raise ConfigError(
                "dson replaces batch normalisation, and this network has none; choose a resnet, digits-bn or wrn-16-4."
            )
        self.current = _CurrentDomains()
        self.replaced = math.ceil(settings.layers * len(places))
        for name, module in places[: self.replaced]:
            self.net.set_submodule(name, DomainNorm(module, task.num_domains, self.current))

    def branch(self, images: torch.Tensor, domains: torch.Tensor) -> torch.Tensor:
        """z `(n, d)` of images `(n, 3, h, w)`, each normalised as of one of the source domains `(n,)`."""
        self.current.of_images = domains
        return super().features(images)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        if not self.replaced:
            return super().features(images)
        first = torch.zeros(len(images), dtype=torch.long, device=images.device)
        branches = [self.branch(images, first + domain) for domain in range(self.task.num_domains)]
        return torch.stack([z.float() for z in branches]).mean(dim=0)

    def loss(self, batch: Batch) -> torch.Tensor:
        z = self.branch(batch.images, batch.domains)
        return self.cross_entropy(self.classify(z), batch.labels)
