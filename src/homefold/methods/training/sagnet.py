"""SagNet: an answer from the content of a feature map, whatever its style."""

from __future__ import annotations

import copy
from dataclasses import dataclass, replace

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm

from homefold.features.level_maps import backbone_levels, chain, features_from_map
from homefold.features.network import FeatureNet
from homefold.methods.recipe import COLOUR_AND_CROP, DIGITS_BY_DOMAIN, PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["SagNet", "content_of_another", "style_towards_another"]

_TINY = 1e-5
_LONGEST_PULL = 0.1
_ALONG_A_COSINE = Training(0.004, 29, 96, schedule="cosine", weight_decay=1e-4, sampling="domains")


@method_named("sagnet", "SagNet", 2021, "Nam et al., CVPR 2021", "Learns content under random styles, unlearns style.")
@dataclass(frozen=True)
class SagNet(LearnerMethod):
    """L = CE(h(m in another's style), y) + CE(h_s(another's content in the style of m), y); and style is unlearned.

    m are the maps in the middle of the network, h what follows them; h_s is a copy of h with weights of its own, which
    the second term alone trains. Style is mean and variance of each channel, content the map without them. A style
    moves towards another image's by a share drawn between 0 and 1. The affine weights of the batch normalisations
    before m also follow the gradient of λ CE(h_s(…), uniform), cut to a length of 0.1. All step at once, not in turn.

    Figure to reach: 83.25 % on PACS with ResNet-18. DomainBed's form, which mixes z in the place of maps, has 86.3 %
    with ResNet-50, where its Deep All has 85.5 %.

    Null setting: `randomised` 0, where no part of it is left. Cost of a step: that of Deep All, the part after m once
    more, and the part before it once more on the way back.
    """

    null = {"randomised": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant; 2,000 steps on PACS
        PRETRAINED: Recipe(replace(_ALONG_A_COSINE, augmentation=replace(COLOUR_AND_CROP, crop_min_area=0.5))),
        SMALL: Recipe(DIGITS_BY_DOMAIN),
    }

    weight: float = tunable(0.1, 0.01, 10, log=True)
    """λ."""
    randomised: float = tunable(1.0, 0.1, 1.0, most=1)
    """The largest share by which a style moves towards another's."""
    level: int = tunable(2, choices=(1, 2, 3), least=1)
    """After which level of the backbone m is taken: of a residual network's four layers, say."""
    dropout: float = tunable(0.5, 0.0, 0.8, most=0.99)
    """How often a value before either classifier is left out in training."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return _SagNetLearner(net, task, self)


class _SagNetLearner(Learner[SagNet]):
    def __init__(self, net: FeatureNet, task: LearningTask, settings: SagNet) -> None:
        super().__init__(net, task, settings)
        # Its levels before m are never used.
        self.style_net = copy.deepcopy(net)
        self.style_classifier = nn.Linear(net.feature_dim, task.num_classes)

    def loss(self, batch: Batch) -> torch.Tensor:
        settings = self.settings
        if not settings.randomised:
            return super().loss(batch)
        before = chain(backbone_levels(self.net.backbone).levels[: settings.level])
        maps = before((batch.images - self.net.mean) / self.net.std).float()
        content = self.classify(self._after(self.net, style_towards_another(maps, settings.randomised)))
        styled = content_of_another(maps)
        leaf = styled.detach().requires_grad_()
        told = self.style_classifier(self._after(self.style_net, leaf)).float()
        doubt = -settings.weight * (told.softmax(1) + _TINY).log().mean()
        (back,) = torch.autograd.grad(doubt, leaf, retain_graph=True)
        known = self.cross_entropy(content, batch.labels) + self.cross_entropy(told, batch.labels)
        return known + self._pull(styled, back)

    def _after(self, net: FeatureNet, maps: torch.Tensor) -> torch.Tensor:
        rest = chain(backbone_levels(net.backbone).levels[self.settings.level :])
        return F.dropout(features_from_map(net, rest(maps)), self.settings.dropout, self.training)

    def _pull(self, styled: torch.Tensor, back: torch.Tensor) -> torch.Tensor:
        """Zero, whose gradient for the affine weights before m is what `back` for `styled` says, cut to its length.

        Without batch normalisation all weights before m are pulled.
        """
        norms = [module for module in self.net.backbone.modules() if isinstance(module, _BatchNorm)]
        affine = [weight for module in norms for weight in module.parameters(recurse=False)]
        weights = affine or list(self.net.backbone.parameters())
        found = torch.autograd.grad(styled, weights, back, retain_graph=True, allow_unused=True)
        pairs = [(weight, slope) for weight, slope in zip(weights, found, strict=True) if slope is not None]
        length = torch.stack([slope.norm() for _, slope in pairs]).norm()
        cut = _LONGEST_PULL / length.clamp(min=_LONGEST_PULL)
        return torch.stack([((weight - weight.detach()) * slope * cut).sum() for weight, slope in pairs]).sum()


def style_towards_another(maps: torch.Tensor, most: float) -> torch.Tensor:
    """`maps: (n, c, h, w)` whose channels' means and variances moved towards another's by a share of up to `most`."""
    variance, mean = torch.var_mean(maps, dim=(2, 3), correction=0, keepdim=True)
    share, other = most * torch.rand(len(maps), 1, 1, 1, device=maps.device), _others(maps)
    scale = (torch.lerp(variance, variance[other], share) + _TINY) / (variance + _TINY)
    return (maps - mean) * scale.sqrt() + torch.lerp(mean, mean[other], share)


def content_of_another(maps: torch.Tensor) -> torch.Tensor:
    """`maps: (n, c, h, w)` with the content of others, from which no gradient comes, in their own style."""
    variance, mean = torch.var_mean(maps, dim=(2, 3), correction=0, keepdim=True)
    deviation = (variance + _TINY).sqrt()
    return ((maps - mean) / deviation).detach()[_others(maps)] * deviation + mean


def _others(maps: torch.Tensor) -> torch.Tensor:
    return torch.rand(len(maps), device=maps.device).argsort()
