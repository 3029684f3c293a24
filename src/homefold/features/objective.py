"""What stage 1 minimises: L_A, cross entropy, or both."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.features.loss import pairwise_metric_loss, pairwise_metric_loss_share
from homefold.runtime.processes import current_processes

__all__ = ["Objective"]


class Objective(nn.Module):
    """weight_A · L_A + weight_CE · CE, with a linear layer of its own for the latter.

    With the metric weight at 0 this is Deep All: a plain classifier on the pooled sources.
    """

    def __init__(
        self,
        feature_dim: int,
        num_classes: int,
        *,
        metric_weight: float = 1.0,
        cross_entropy_weight: float = 0.0,
        temperature: float = 0.1,
    ) -> None:
        super().__init__()
        if metric_weight < 0 or cross_entropy_weight < 0 or metric_weight + cross_entropy_weight == 0:
            raise ConfigError(
                f"the weights of L_A ({metric_weight}) and of cross entropy ({cross_entropy_weight}) must not be "
                f"negative, and one of them must be positive."
            )
        self.metric_weight = metric_weight
        self.cross_entropy_weight = cross_entropy_weight
        self.temperature = temperature
        self.classifier = nn.Linear(feature_dim, num_classes) if cross_entropy_weight else None

    def forward(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """The loss of a batch.

        Among several processes, each with a part of the batch, this process's share: the shares add up to the loss.
        """
        total = z.new_zeros(())
        if self.metric_weight:
            total = total + self.metric_weight * pairwise_metric_loss_share(z, labels, self.temperature)
        if self.classifier is not None:
            with torch.autocast(z.device.type, enabled=False):
                loss = self.cross_entropy_weight * F.cross_entropy(self.classifier(z.float()), labels)
            total = total + 1 / current_processes().count * loss
        return total

    def criterion(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What selection looks at: L_A where it is trained, cross entropy otherwise."""
        if self.metric_weight:
            return pairwise_metric_loss(z, labels, self.temperature)
        assert self.classifier is not None
        return F.cross_entropy(self.classifier(z.float()), labels)
