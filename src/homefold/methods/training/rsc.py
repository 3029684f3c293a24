"""RSC: the features that speak loudest for the true class are muted, so that the others learn to answer."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from homefold.features.network import FeatureNet
from homefold.features.stage_maps import features_from_map, stage_maps
from homefold.methods.registry import method_named
from homefold.methods.training.learner import Batch, Learner, LearningTask
from homefold.methods.training.learner_method import LearnerMethod, tunable

__all__ = ["RSC", "dominant_mask", "most_shaken"]


@method_named(
    "rsc", "RSC", 2020, "Huang et al., ECCV 2020", "Mutes the features with the largest gradients during training."
)
@dataclass(frozen=True)
class RSC(LearnerMethod):
    """L = CE(h(z ⊙ m), y), with m = 0 where z speaks for y among the largest p of its kind, else 1.

    z is the network's last feature map and h what follows it. With w the gradient ∂ h_y(z) / ∂z averaged over places, a
    channel speaks by w and a place by Σ_channels w z; in each step a coin decides whether channels or places are muted.
    (The paper's text has the gradient averaged over channels for places, which is the same at every place wherever h
    pools.) Only the share b of the batch whose true class loses most probability is muted; the others pass unchanged.

    Null setting: `batch_share` 0. Cost of a step: that of Deep All, and three passes through pooling and head alone.
    """

    null = {"batch_share": 0.0}  # noqa: RUF012 - a constant

    drop: float = tunable(1 / 3, 0.1, 0.5, most=1)
    """p: share of places or channels that is muted."""
    batch_share: float = tunable(1 / 3, 0.1, 1.0, most=1)
    """b: share of the batch that is challenged."""
    spatial_share: float = tunable(0.5, choices=(0.0, 0.5, 1.0), most=1)
    """How often places are muted instead of channels."""

    def learner(self, net: FeatureNet, task: LearningTask) -> Learner:
        return _RSCLearner(net, task, self)


class _RSCLearner(Learner[RSC]):
    def loss(self, batch: Batch) -> torch.Tensor:
        settings = self.settings
        if not settings.batch_share:
            return super().loss(batch)
        last = stage_maps(self.net, batch.images)[-1]
        mask = self._challenge(last.detach(), batch.labels)
        return self.cross_entropy(self._logits_of(last * mask), batch.labels)

    def _logits_of(self, last: torch.Tensor) -> torch.Tensor:
        return self.classify(features_from_map(self.net, last))

    def _challenge(self, last: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Zeros where a map is muted, ones elsewhere. last: `(n, c, h, w)` without a graph."""
        leaf = last.requires_grad_()
        logits = self._logits_of(leaf)
        (gradient,) = torch.autograd.grad(logits.gather(1, labels[:, None]).sum(), leaf)
        # Drawn on the CPU: to ask the device would make it wait.
        spatial = float(torch.rand(())) < self.settings.spatial_share
        mask = dominant_mask(leaf.detach(), gradient, self.settings.drop, spatial=spatial)
        muted = self._logits_of(leaf.detach() * mask).detach()
        shaken = most_shaken(logits.detach(), muted, labels, self.settings.batch_share)
        return torch.where(shaken[:, None, None, None], mask, 1)


def dominant_mask(last: torch.Tensor, gradient: torch.Tensor, drop: float, *, spatial: bool) -> torch.Tensor:
    """Zeros at the share `drop`, rounded down, of what speaks loudest for the class, ones elsewhere.

    These are places of the map `last: (n, c, h, w)`, giving `(n, 1, h, w)`, if `spatial`; else channels, giving
    `(n, c, 1, 1)`. The gradient is that of the class's logit by the map.
    """
    weight = gradient.mean(dim=(2, 3), keepdim=True)
    voice = (weight * last).sum(dim=1, keepdim=True) if spatial else weight
    flat = voice.flatten(1)
    largest = flat.topk(int(drop * flat.shape[1]), dim=1).indices
    return torch.ones_like(flat).scatter(1, largest, 0).view_as(voice)


def most_shaken(before: torch.Tensor, after: torch.Tensor, labels: torch.Tensor, share: float) -> torch.Tensor:
    """`(n,)` whether a sample is among the `share`, rounded, whose true class lost most probability.

    `before` and `after`, with muted features, are logits `(n, classes)`.
    """
    lost = (before.softmax(dim=1) - after.softmax(dim=1)).gather(1, labels[:, None]).squeeze(1)
    chosen = lost.topk(round(share * len(lost))).indices
    return torch.zeros_like(lost, dtype=torch.bool).scatter(0, chosen, True)
