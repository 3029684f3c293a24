"""What stage 1 minimises: L_A, cross entropy, or both, with what each may learn beside the network."""

from __future__ import annotations

import math

import torch
from torch import nn
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.features.agreement import NEEDS_CROSS_ENTROPY, agreement_loss
from homefold.features.loss import pairwise_metric_loss, pairwise_metric_loss_share
from homefold.features.pair_emphasis import EVEN, PairEmphasis
from homefold.processes import current_processes

__all__ = ["Objective"]


class Objective(nn.Module):
    """weight_A · L_A + weight_CE · CE + weight_G · G, with a linear layer of its own for the last two.

    With the metric weight at 0 this is Deep All: a plain classifier on the pooled sources.

    Args:
        feature_dim: size of z.
        num_classes: outputs of the cross-entropy layer.
        metric_weight: weight of L_A.
        cross_entropy_weight: weight of the cross entropy.
        temperature: τ of L_A.
        learn_temperature: let τ and the bias of the pair logit be trained along.
        bias: the pair logit's bias, or its start where it is learned.
        balanced_pairs: weigh equal and different pairs half each.
        pair_emphasis: which pairs count more; by default none.
        agreement_weight: weight of G, how far the answers to one label lie apart; it needs cross entropy beside it.
        agreement_temperature: T of `agreement_loss`.
    """

    def __init__(
        self,
        feature_dim: int,
        num_classes: int,
        *,
        metric_weight: float = 1.0,
        cross_entropy_weight: float = 0.0,
        temperature: float = 0.1,
        learn_temperature: bool = False,
        bias: float = 0.0,
        balanced_pairs: bool = False,
        pair_emphasis: PairEmphasis = EVEN,
        agreement_weight: float = 0.0,
        agreement_temperature: float = 4.0,
    ) -> None:
        super().__init__()
        if metric_weight < 0 or cross_entropy_weight < 0 or metric_weight + cross_entropy_weight == 0:
            raise ConfigError(
                f"the weights of L_A ({metric_weight}) and of cross entropy ({cross_entropy_weight}) must not be "
                f"negative, and one of them must be positive."
            )
        if agreement_weight and not cross_entropy_weight:
            raise ConfigError(NEEDS_CROSS_ENTROPY)
        self.metric_weight = metric_weight
        self.cross_entropy_weight = cross_entropy_weight
        self.temperature = temperature
        self.balanced_pairs = balanced_pairs
        self.pair_emphasis = pair_emphasis
        self.agreement_weight = agreement_weight
        self.agreement_temperature = agreement_temperature
        self.classifier = nn.Linear(feature_dim, num_classes) if cross_entropy_weight else None
        self.log_temperature: nn.Parameter | None = None
        self.bias: nn.Parameter | float = bias
        if learn_temperature:
            self.log_temperature = nn.Parameter(torch.tensor(math.log(temperature)))
            self.bias = nn.Parameter(torch.tensor(float(bias)))

    def pair_temperature(self) -> float | torch.Tensor:
        """τ as it now stands."""
        return self.temperature if self.log_temperature is None else self.log_temperature.exp()

    def forward(
        self,
        z: torch.Tensor,
        labels: torch.Tensor,
        cross_entropy_scale: float = 1.0,
        domains: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """The loss of a batch; `cross_entropy_scale` in [0, 1] fades all but L_A out during training.

        Among several processes, each with a part of the batch, this process's share: the shares add up to the loss.
        `domains: (n,)` are needed where the domain of a pair matters.
        """
        total = z.new_zeros(())
        if self.metric_weight:
            metric = pairwise_metric_loss_share(
                z,
                labels,
                self.pair_temperature(),
                bias=self.bias,
                balanced=self.balanced_pairs,
                emphasis=self.pair_emphasis,
                domains=domains,
            )
            total = total + self.metric_weight * metric
        if self.classifier is not None and cross_entropy_scale > 0:
            with torch.autocast(z.device.type, enabled=False):
                logits = self.classifier(z.float())
                loss = self.cross_entropy_weight * F.cross_entropy(logits, labels)
                if self.agreement_weight:
                    loss = loss + self.agreement_weight * agreement_loss(logits, labels, self.agreement_temperature)
            total = total + cross_entropy_scale / current_processes().count * loss
        return total

    def criterion(self, z: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What selection looks at: where L_A is trained, L_A over all pairs alike; cross entropy otherwise.

        τ and bias are those of training, as they now stand: at others a network that learned its own would look worse
        the longer it was trained.
        """
        if self.metric_weight:
            return pairwise_metric_loss(z, labels, self.pair_temperature(), bias=self.bias)
        assert self.classifier is not None
        return F.cross_entropy(self.classifier(z.float()), labels)
