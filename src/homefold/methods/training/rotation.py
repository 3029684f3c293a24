"""Rotation: Deep All that also learns by how many quarter turns an image was turned."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.level_maps import backbone_levels, chain
from homefold.features.network import FeatureNet
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["QUARTER_TURNS", "Rotation", "RotationBranch", "RotationLearner", "rotation_loss", "shared_part", "turned"]

QUARTER_TURNS = 4


def turned(images: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Each of `images: (n, 3, h, h)` turned by its number of quarter turns in `turns: (n,)`, channels last."""
    every = torch.stack([torch.rot90(images, quarter, (2, 3)) for quarter in range(QUARTER_TURNS)])
    chosen = every[turns, torch.arange(len(images), device=images.device)]
    return chosen.contiguous(memory_format=torch.channels_last)


def rotation_loss(seen: torch.Tensor, head: nn.Module, turns: torch.Tensor) -> torch.Tensor:
    """CE(h(s), r), in full precision from z on.

    Args:
        seen: s, z `(n, d)` of turned images, or the map `(n, c, h, w)` that a branch begins from.
        head: h, to four logits.
        turns: `(n,)` r.
    """
    if isinstance(head, RotationBranch):
        return F.cross_entropy(head(seen).float(), turns)
    with torch.autocast(seen.device.type, enabled=False):
        return F.cross_entropy(head(seen.float()), turns)


@method_named(
    "rotation",
    "Rotation",
    2020,
    "Sun et al., ICML 2020",
    "Deep All that also learns to tell by how many quarter turns an image was turned.",
)
@dataclass(frozen=True)
class Rotation(LearnerMethod):
    """CE(C(f(x)), y) + λ CE(h(f_1(turn_r(x))), r), r drawn from {0, 1, 2, 3}, f = f_2 ∘ f_1.

    The joint training of test-time training, which wraps it by default; by itself it is the control without the
    updates at test time. The network has the shape of a Y: f_1 are all levels but the last, and h has a last level, a
    head and a linear layer of its own, which start as those of f do. So what tells turns moves only what both branches
    share. With `branches` 0, for networks that show no levels, h is a linear layer on z. Upright and turned images pass
    in turn, and batch normalisation keeps statistics of both, where the authors train with group normalisation: the
    pretrained networks have batch normalisation.

    Null setting: `weight` 0. Cost of a step: twice that of Deep All.
    """

    null = {"weight": 0.0}  # noqa: RUF012 - a constant

    weight: float = tunable(1.0, 0.1, 1.0, log=True)
    """λ."""
    branches: int = tunable(1, choices=(0, 1), most=1)
    """Whether h has a last level of its own (1) or shares z (0)."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return RotationLearner(net, task, self)


class RotationLearner(Learner[Rotation]):
    """Deep All with a head that tells quarter turns."""

    capturable = True

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Rotation) -> None:
        super().__init__(net, task, settings)
        self.rotation_head: nn.Module = nn.Linear(net.feature_dim, QUARTER_TURNS)
        if settings.branches:
            self.rotation_head = RotationBranch(net, self.rotation_head, task.image_size)

    def loss(self, batch: Batch) -> torch.Tensor:
        loss, weight = super().loss(batch), self.settings.weight
        if not weight:
            return loss
        turns = torch.randint(QUARTER_TURNS, (len(batch),), device=batch.images.device)
        seen = shared_part(self.net, turned(batch.images, turns), self.rotation_head)
        return loss + weight * rotation_loss(seen, self.rotation_head, turns)


class RotationBranch(nn.Module):
    """What tells turns by the map before a network's last level: such a level, a head and `layer`, all of its own.

    `image_size` is that of the images, `(height, width)`.
    """

    def __init__(self, net: FeatureNet, layer: nn.Module, image_size: tuple[int, int]) -> None:
        super().__init__()
        self.net, self.layer = copy.deepcopy(net), layer
        before = shared_map(self.net, self.net.mean.expand(2, 3, *image_size)).detach()
        every = list(self.net.parameters())
        reached = torch.autograd.grad(self._features(before).sum(), every, allow_unused=True)
        for parameter, gradient in zip(every, reached, strict=True):
            parameter.requires_grad_(gradient is not None)
        self.net.load_state_dict(net.state_dict())  # the statistics that asking changed

    def _features(self, before: torch.Tensor) -> torch.Tensor:
        levels = backbone_levels(self.net.backbone)
        z: torch.Tensor = self.net.head(levels.finish(levels.levels[-1](before)))
        return z

    def forward(self, before: torch.Tensor) -> torch.Tensor:
        """Logits `(n, 4)` from maps `(n, c, h, w)`."""
        logits: torch.Tensor = self.layer(self._features(before))
        return logits


def shared_map(net: FeatureNet, images: torch.Tensor) -> torch.Tensor:
    """The map before the last level. images: `(n, 3, h, w)` in [0, 1]."""
    return chain(backbone_levels(net.backbone).levels[:-1])((images - net.mean) / net.std)


def shared_part(net: nn.Module, images: torch.Tensor, head: nn.Module) -> torch.Tensor:
    """What `head` is given: the map that its own branch begins from, or z."""
    if isinstance(head, RotationBranch):
        assert isinstance(net, FeatureNet)
        return shared_map(net, images)
    z: torch.Tensor = net(images)
    return z
