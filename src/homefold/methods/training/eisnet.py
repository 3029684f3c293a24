"""EISNet: jigsaw puzzles within an image, and triplets with a memory of earlier images across domains."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn import functional as F

from homefold.features.network import FeatureNet
from homefold.methods.recipe import COLOUR_AND_CROP, DIGITS, PRETRAINED, SMALL, Recipe, Training
from homefold.methods.registry import method_named
from homefold.methods.training.jigen import Jigen, JigenLearner, grey_tiles
from homefold.methods.training.learner import Batch, LearningTask
from homefold.methods.training.learner_method import tunable
from homefold.methods.training.triplets import all_semi_hard_loss, squared_distances

__all__ = ["EisNet", "EisNetLearner"]


@method_named(
    "eisnet",
    "EISNet",
    2020,
    "Wang et al., ECCV 2020",
    "Solves jigsaw puzzles, and pulls one class together against a memory of earlier images.",
)
@dataclass(frozen=True)
class EisNet(Jigen):
    """L = CE(W f(x̃), y) + α CE(V f(x̃), p) + w T over images of all domains, the first two terms as in JiGen.

    T is the mean of ‖q_i - k_j‖² - ‖q_i - m‖² + margin over pairs i ≠ j of one class and negatives m of another for
    which it lies between 0 and the margin; a pair has `negatives` of them at most. q is an embedding of length 1 of the
    puzzled image. k is that of the plain image, grey as often as a tile, by a copy of the network that follows it
    slowly, and m is one of the last k, of this batch and those before, whatever their domain. w rises from half of
    `triplet` to all of it.

    The authors draw the negatives of a pair at random; here all count with what a draw has in the mean. Their code has
    a function that raises w by epochs but never calls it; here w rises by steps. Their copy keeps the batch-norm
    statistics that it began with; here it has the network's, since networks from scratch begin with none. The authors'
    recipe is theirs for PACS with ResNet-50; they hand their images over at 222 px.

    Figures to reach on PACS: 82.15 % with ResNet-18, 85.84 % with ResNet-50.

    Null setting: `weight` 0, `ordered` 1, `grey_tiles` 0 and `triplet` 0. Cost of a step: that of Deep All and a
    forward pass, and the distances to the memory.
    """

    null = {"weight": 0.0, "ordered": 1.0, "grey_tiles": 0.0, "triplet": 0.0}  # noqa: RUF012 - a constant
    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(
            Training(0.001, 100, 64, milestones=(0.6,), weight_decay=2e-5, augmentation=COLOUR_AND_CROP)
        ),
        SMALL: Recipe(DIGITS),
    }

    triplet: float = tunable(1.0, 0.1, 2.0)
    """What the weight of the triplets rises to, from half of it."""
    margin: float = tunable(2.0, 0.5, 4.0)
    """How much farther a negative should lie, in squared distances on the unit sphere."""
    negatives: int = tunable(256, choices=(16, 64, 256), least=1)
    """How many negatives a pair has at most."""
    memory: int = tunable(1024, choices=(256, 1024, 4096), least=1)
    """Embeddings that are remembered."""
    follow: float = tunable(0.999, 0.9, 0.9999, most=1)
    """How much of itself the copy keeps at each step."""

    def learner(self, net: FeatureNet, task: LearningTask) -> EisNetLearner:
        return EisNetLearner(net, task, self)


class _Embedding(nn.Module):
    """z to a vector of length 1."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.layer = nn.Linear(dim, 128)

    def forward(self, z: torch.Tensor) -> torch.Tensor:
        with torch.autocast(z.device.type, enabled=False):
            return F.normalize(self.layer(z.float()), dim=1)


class EisNetLearner(JigenLearner):
    """The losses of `EisNet`, its slow copy and its memory."""

    capturable = False
    settings: EisNet

    memory: torch.Tensor
    kinds: torch.Tensor

    def __init__(self, net: FeatureNet, task: LearningTask, settings: EisNet) -> None:
        super().__init__(net, task, settings)
        self.embedding = _Embedding(net.feature_dim)
        self.slow = copy.deepcopy(nn.Sequential(net, self.embedding)).requires_grad_(False)
        self.register_buffer("memory", torch.zeros(settings.memory, 128))
        self.register_buffer("kinds", torch.full((settings.memory,), -1))  # of no class yet

    def loss(self, batch: Batch) -> torch.Tensor:
        settings = self.settings
        keys = self._remembered(batch) if settings.triplet else None
        images, which = self.puzzles(batch.images)
        z = self.features(images)
        loss = self.solved(z, batch.labels, which)
        if keys is None:
            return loss
        anchors = self.embedding(z)
        same = batch.labels[:, None] == batch.labels
        pulled = all_semi_hard_loss(
            squared_distances(anchors, keys),
            same & ~torch.eye(len(batch), dtype=torch.bool, device=same.device),
            squared_distances(anchors, self.memory),
            (batch.labels[:, None] != self.kinds) & (self.kinds >= 0),
            settings.margin,
            settings.negatives,
        )
        return loss + settings.triplet * (1 + batch.progress) / 2 * pulled

    @torch.no_grad()
    def _remembered(self, batch: Batch) -> torch.Tensor:
        """The slow copy's embeddings of the plain images, which take the place of the oldest in the memory."""
        keep, images = self.settings.follow, batch.images
        if self.settings.grey_tiles:
            which = torch.rand(len(batch), 1, device=images.device) < self.settings.grey_tiles
            images = grey_tiles(images, which.expand(-1, 9))
        fast = nn.Sequential(self.net, self.embedding)
        for slow, parameter in zip(self.slow.parameters(), fast.parameters(), strict=True):
            slow.lerp_(parameter, 1 - keep)
        for held, buffer in zip(self.slow.buffers(), fast.buffers(), strict=True):
            held.copy_(buffer)
        keys: torch.Tensor = self.slow.eval()(images)
        self.memory.copy_(torch.cat([keys, self.memory])[: len(self.memory)])
        self.kinds.copy_(torch.cat([batch.labels, self.kinds])[: len(self.kinds)])
        return keys
