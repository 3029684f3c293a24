"""T3A's memory (Iwasawa and Matsuo 2021): the surest features of each class so far, whose means classify what comes."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F

from homefold.classifier.entropy import prediction_entropy
from homefold.data.stream import even_batches, stream_order

__all__ = ["ARRIVE_TOGETHER", "SUPPORTS", "ClassMemory", "class_prototypes", "most_confident"]

SUPPORTS = 20
"""Features kept of each class."""
ARRIVE_TOGETHER = 64
"""Features that join before they are answered."""


def most_confident(entropy: torch.Tensor, labels: torch.Tensor, count: int) -> torch.Tensor:
    """Indices of the `count` lowest of `entropy: (n,)` in each class of `labels: (n,)`; the first of equals."""
    order = entropy.argsort(stable=True)
    members = F.one_hot(labels[order])
    place = (members.cumsum(dim=0) * members).sum(dim=1)
    return order[place <= count]


def class_prototypes(supports: torch.Tensor, labels: torch.Tensor, classes: int) -> torch.Tensor:
    """Unit directions `(classes, d)` of the means of `supports: (n, d)` by `labels: (n,)`; zero where none are."""
    members = F.one_hot(labels, classes).to(supports.dtype)
    return F.normalize(members.T @ supports, dim=1)


class ClassMemory:
    """The supports of each class: at first the weights of `layer`, by the class that it answers for them.

    Features join, at unit length, the class that the layer answers for them. Of each class those stay whose answers
    have the lowest entropy.

    Args:
        layer: what classifies features without a memory.
        supports: how many stay of each class.
    """

    @torch.no_grad()
    def __init__(self, layer: nn.Linear, supports: int = SUPPORTS) -> None:
        self.count, answers = supports, layer(layer.weight)
        self._supports = F.normalize(layer.weight, dim=1)
        self._labels, self._entropy = answers.argmax(dim=1), prediction_entropy(answers)

    @torch.no_grad()
    def answers(
        self, z: torch.Tensor, logits: torch.Tensor, seed: int, together: int = ARRIVE_TOGETHER
    ) -> torch.Tensor:
        """z · c_k `(n, classes)`, with c_k the prototypes when z came.

        Args:
            z: `(n, d)` features, of which some arrive together in an order that is drawn with the seed.
            logits: `(n, classes)` that the layer gives for them.
            seed: of the order.
            together: how many join before they are answered.
        """
        found = torch.empty_like(logits)
        for rows in even_batches(stream_order(len(z), seed), together):
            rows = rows.to(z.device)
            self._join(z[rows], logits[rows])
            found[rows] = z[rows] @ class_prototypes(self._supports, self._labels, logits.shape[1]).T
        return found

    def _join(self, z: torch.Tensor, logits: torch.Tensor) -> None:
        """Add a batch to the supports, and keep the most confident of each class."""
        supports = torch.cat([self._supports, F.normalize(z, dim=1)])
        labels = torch.cat([self._labels, logits.argmax(dim=1)])
        entropy = torch.cat([self._entropy, prediction_entropy(logits)])
        kept = most_confident(entropy, labels, self.count)
        self._supports, self._labels, self._entropy = supports[kept], labels[kept], entropy[kept]
