"""DDAIG: a small network learns to move images out of their domains, and the classifier trains on them too."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.methods.recipe import DIGITS, PRETRAINED, SMALL, ZHOU_ON_PACS, Recipe
from homefold.methods.registry import method_named
from homefold.methods.training.inner_step import frozen_call
from homefold.methods.training.learner import Batch, Learner, LearningTask, TrainingImages, scale_gradient
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["Ddaig", "DdaigLearner", "TransformationNet"]

_START = 0.02


@method_named(
    "ddaig",
    "DDAIG",
    2020,
    "Zhou et al., AAAI 2020",
    "Trains also on images that a network has moved out of their domains.",
    needs_domain_labels=True,
)
@dataclass(frozen=True)
class Ddaig(LearnerMethod):
    """Normalised images x' = x + λ T(x), moved out of their domains by a network T; three losses, each for one part.

    The label classifier f minimises (1 - α) CE(f(x), y) + α CE(f(x'), y); the domain classifier h, a network like f,
    minimises CE(h(x), d); T minimises CE(f(x'), y) - CE(h(x'), d) with f and h held fixed. In the first epochs f sees
    no moved images, while T learns. All three step at once here, where the authors let T step first and move the images
    anew: one backward pass in the place of three.

    Figures to reach: 83.1 % on PACS with ResNet-18, 77.6 % on Digits-DG. Ours with a smaller T, no warm-up and moves
    four times as far: 0.8 above our Deep All on PACS. The authors also tuned λ for each target (Dassl issue 12), which
    is not done here.

    Null setting: `share` 0, where neither h nor T is trained. Cost of a step: several times that of Deep All (f and h
    on two images each, and T at the size of the images).
    """

    least_domains = 2
    null = {"share": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(ZHOU_ON_PACS),
        SMALL: Recipe(DIGITS, {"width": 32, "warm_up": 0}),
    }

    step: float = tunable(0.3, 0.1, 0.9)
    """λ, how far T may move a normalised pixel."""
    share: float = tunable(0.5, 0.1, 0.9, most=1)
    """α, the weight of the moved images; with 0 there are none."""
    warm_up: int = tunable(3, choices=(0, 3, 5))
    """Epochs in which f sees no moved images."""
    width: int = tunable(64, choices=(16, 32, 64), least=1)
    """Channels of T."""
    blocks: int = tunable(3, choices=(1, 2, 3))
    """Residual blocks of T."""

    def learner(self, net: FeatureNet, task: LearningTask) -> DdaigLearner:
        return DdaigLearner(net, task, self)


def _convolution(channels: int, width: int) -> list[nn.Module]:
    """3×3, reflected at the border, and instance normalisation without weights."""
    return [nn.ReflectionPad2d(1), nn.Conv2d(channels, width, 3, bias=False), nn.InstanceNorm2d(width)]


class _Residual(nn.Module):
    """x + two 3×3 convolutions with instance normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(*_convolution(width, width), nn.ReLU(), *_convolution(width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        perturbed: torch.Tensor = x + self.layers(x)
        return perturbed


class TransformationNet(nn.Module):
    """T: normalised images `(n, 3, h, w)` to perturbations of the same shape in (-1, 1); convolutions only.

    Residual blocks at full resolution, then every pixel sees the average of all of them beside its own values. Weights
    start as draws from N(0, 0.02), so that a T that has learned nothing moves images by little.
    """

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(*_convolution(3, width), nn.ReLU())
        self.blocks = nn.Sequential(*(_Residual(width) for _ in range(blocks)))
        fusion = [nn.Conv2d(2 * width, width, 1, bias=False), nn.InstanceNorm2d(width), nn.ReLU()]
        self.mix = nn.Sequential(*fusion, nn.Conv2d(width, 3, 1), nn.Tanh())
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, 0.0, _START)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        own = self.blocks(self.stem(images))
        context = own.mean(dim=(2, 3), keepdim=True).expand_as(own)
        mixed: torch.Tensor = self.mix(torch.cat([own, context], dim=1))
        return mixed


class DdaigLearner(Learner[Ddaig]):
    """The losses of `Ddaig`, all in one backward pass."""

    @property
    def capturable(self) -> bool:  # type: ignore[override]
        """Not with a warm-up, in which a step is another."""
        return not self.settings.warm_up

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Ddaig) -> None:
        super().__init__(net, task, settings)
        self.transformation = TransformationNet(settings.width, settings.blocks)
        self.domain_net = nn.Sequential(copy.deepcopy(net), nn.Linear(net.feature_dim, task.num_domains))
        self.warming_up = False

    def epoch_start(self, epoch: int, images: TrainingImages) -> None:
        self.warming_up = epoch < self.settings.warm_up

    def loss(self, batch: Batch) -> torch.Tensor:
        share = self.settings.share
        own = self.cross_entropy(self.logits(batch.images), batch.labels)
        if not share:
            return own
        mean, std = self.net.mean, self.net.std
        moved = batch.images + self.settings.step * std * self.transformation((batch.images - mean) / std)
        told = self.cross_entropy(self.domain_net(batch.images), batch.domains)
        fooled = self.cross_entropy(frozen_call(self.domain_net, moved), batch.domains)
        if self.warming_up:
            z = frozen_call(self.net, moved).float()
            kept = F.linear(z, self.classifier.weight.detach(), self.classifier.bias.detach())
            return own + self.cross_entropy(kept, batch.labels) + told - fooled
        # The classifier takes this loss times the share; the transformation behind it takes all of it.
        kept = self.cross_entropy(self.logits(scale_gradient(moved, 1 / share)), batch.labels)
        return (1 - share) * own + share * kept + told - fooled
