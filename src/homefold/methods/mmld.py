"""MMLD: domains found by clustering the images' styles, and features from which they cannot be told."""

from __future__ import annotations

import torch
from torch import nn

from homefold.features.network import FeatureNet
from homefold.features.stage_maps import stage_maps
from homefold.methods.gradient_scale import ramp
from homefold.methods.learner import Batch, Learner, LearningTask, TrainingImages, reverse_gradient
from homefold.methods.style_clusters import cluster_styles, match_clusters, style_features

__all__ = ["MmldLearner", "mean_entropy"]

_STYLE_BATCH = 256


def mean_entropy(logits: torch.Tensor) -> torch.Tensor:
    """-mean over the samples of Σ_c p_c log p_c, p = softmax(logits). logits: `(n, classes)`.

    >>> round(mean_entropy(torch.zeros(2, 4)).item(), 4)
    1.3863
    """
    log_p = torch.log_softmax(logits.float(), dim=1)
    return -(log_p.exp() * log_p).sum(dim=1).mean()


class MmldLearner(Learner):
    """The losses of `Mmld`, and the clustering before an epoch.

    Args:
        net: f; the maps of its lower stages tell the style.
        task: the size of things.
        settings: the method's.
    """

    pseudo_domains: torch.Tensor

    def __init__(self, net: FeatureNet, task: LearningTask, settings: Mmld) -> None:
        super().__init__(net, task)
        self.settings = settings
        self.clusters = settings.clusters or max(2, task.num_domains)
        self.discriminator = nn.Sequential(
            nn.Linear(net.feature_dim, settings.hidden), nn.ReLU(), nn.Linear(settings.hidden, self.clusters)
        )
        self.register_buffer("pseudo_domains", torch.zeros(task.num_images, dtype=torch.long))

    def epoch_start(self, epoch: int, images: TrainingImages) -> None:
        if not self.settings.adversary or epoch % self.settings.every:
            return
        found = cluster_styles(self.styles(images), self.clusters, self.task.seed)
        if epoch:
            found = match_clusters(found, self.pseudo_domains.cpu(), self.clusters)
        self.pseudo_domains.copy_(found)

    def styles(self, images: TrainingImages) -> torch.Tensor:
        """`(n, d)` style of every training image, from all stages but the last, where the content has taken over."""
        was_training = self.training
        self.eval()
        try:
            with torch.no_grad():
                parts = [
                    style_features(stage_maps(self.net, images.batch(rows))[:-1])
                    for rows in torch.arange(len(images)).split(_STYLE_BATCH)
                ]
        finally:
            self.train(was_training)
        return torch.cat(parts)

    def loss(self, batch: Batch) -> torch.Tensor:
        settings, rise = self.settings, ramp(batch.progress)
        z = self.features(batch.images)
        logits = self.classify(z)
        total = self.cross_entropy(logits, batch.labels)
        if settings.entropy:
            total = total + settings.entropy * rise * mean_entropy(logits)
        if settings.adversary:
            told = self.discriminator(reverse_gradient(z, settings.adversary * rise))
            total = total + self.cross_entropy(told, self.pseudo_domains[batch.rows])
        return total
