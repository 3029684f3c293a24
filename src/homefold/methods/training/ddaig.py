"""DDAIG: a small network learns to move images out of their domains, and the classifier trains on them too."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.func import functional_call

from homefold.features.network import FeatureNet
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask, scale_gradient
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["Ddaig", "DdaigLearner", "TransformationNet", "frozen_call"]


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
    """Images x' = x + λ T(x), moved out of their domains by a network T; three losses, each for its own part.

    The label classifier f minimises (1 - α) CE(f(x), y) + α CE(f(x'), y); the domain classifier h, a network like f,
    minimises CE(h(x), d); T minimises CE(f(x'), y) - CE(h(x'), d) with f and h held fixed. All three step at once
    here, where the paper lets T step first.

    Null setting: `share` 0, where neither h nor T is trained. Cost of a step: several times that of Deep All (f and h
    on two images each, and T at the size of the images).
    """

    least_domains = 2
    null = {"share": 0.0}  # noqa: RUF012 - a constant

    step: float = tunable(0.3, 0.1, 0.9)
    """λ, how far T may move a pixel, in units of the pixels' range."""
    share: float = tunable(0.5, 0.1, 0.9, most=1)
    """α, the weight of the moved images; with 0 there are none."""
    width: int = tunable(32, choices=(16, 32, 64), least=1)
    """Channels of T."""
    blocks: int = tunable(2, choices=(1, 2, 3))
    """Residual blocks of T."""

    def learner(self, net: FeatureNet, task: LearningTask) -> DdaigLearner:
        return DdaigLearner(net, task, self)


class _Residual(nn.Module):
    """x + two 3×3 convolutions with instance normalisation."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.InstanceNorm2d(width, affine=True),
            nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1),
            nn.InstanceNorm2d(width, affine=True),
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        perturbed: torch.Tensor = x + self.layers(x)
        return perturbed


class TransformationNet(nn.Module):
    """T: images `(n, 3, h, w)` to perturbations of the same shape in (-1, 1); convolutions only.

    Residual blocks at full resolution, then every pixel sees the average of all of them beside its own values.
    """

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
        self.blocks = nn.Sequential(*(_Residual(width) for _ in range(blocks)))
        self.mix = nn.Sequential(nn.Conv2d(2 * width, width, 1), nn.ReLU(), nn.Conv2d(width, 3, 1), nn.Tanh())

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        own = self.blocks(self.stem(images))
        context = own.mean(dim=(2, 3), keepdim=True).expand_as(own)
        mixed: torch.Tensor = self.mix(torch.cat([own, context], dim=1))
        return mixed


class DdaigLearner(Learner[Ddaig]):
    """The losses of `Ddaig`, all in one backward pass."""

    recordable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Ddaig) -> None:
        super().__init__(net, task, settings)
        self.transformation = TransformationNet(settings.width, settings.blocks)
        self.domain_net = nn.Sequential(copy.deepcopy(net), nn.Linear(net.feature_dim, task.num_domains))

    def loss(self, batch: Batch) -> torch.Tensor:
        share = self.settings.share
        own = self.cross_entropy(self.logits(batch.images), batch.labels)
        if not share:
            return own
        moved = batch.images + self.settings.step * self.transformation(batch.images)
        # The classifier takes this loss times the share; the transformation behind it takes all of it.
        kept = self.cross_entropy(self.logits(scale_gradient(moved, 1 / share)), batch.labels)
        told = self.cross_entropy(self.domain_net(batch.images), batch.domains)
        fooled = self.cross_entropy(frozen_call(self.domain_net, moved), batch.domains)
        return (1 - share) * own + share * kept + told - fooled


def frozen_call(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    """`module(x)` with a gradient for `x` but none for the module, whose running statistics stay as they are."""
    state = {name: parameter.detach() for name, parameter in module.named_parameters()}
    state |= {name: buffer.clone() for name, buffer in module.named_buffers()}
    result: torch.Tensor = functional_call(module, state, (x,))
    return result
