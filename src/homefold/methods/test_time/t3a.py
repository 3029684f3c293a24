"""T3A: a linear classifier whose weights are replaced by prototypes of confident target features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.entropy import prediction_entropy
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped, even_batches, stream_order
from homefold.methods.training.learner_method import tunable
from homefold.stages.task import TrainingTask

__all__ = ["T3A", "class_prototypes", "most_confident"]


@method_named(
    "t3a",
    "T3A",
    2021,
    "Iwasawa and Matsuo, NeurIPS 2021",
    "Replaces the classifier's weights by prototypes of confident target features, as they arrive.",
    touches_target=True,
    stateless=False,
    wraps="deep-all",
)
@dataclass(frozen=True)
class T3A(TestTimeMethod):
    """p(k | x) ∝ exp(z · c_k), c_k the direction of the mean of the supports S_k of class k.

    The layer's weights ω_k and then the target features join, divided by their length, the set of the class that the
    layer itself answers for them; of each set the M supports with the lowest entropy of that answer stay. A batch
    joins before it is answered. The layer's bias serves for joining only. Prototypes have length one, as in the
    authors' code; the paper's equation does not say so. The authors choose M on held-out sources; here it is 20.

    Null setting: supports 0 keeps the layer.
    """

    looks_as_asked = True

    supports: int = tunable(20, choices=(1, 5, 20, 50, 100))
    """M: supports kept of each class."""
    batch_size: int = tunable(64, choices=(1, 32, 64), least=1)
    """Target images that arrive together."""

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Adjusted(self, trained, task)


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


class _Adjusted(Wrapped[T3A]):
    def __init__(self, method: T3A, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        if not isinstance(self.network.layer, nn.Linear):
            raise ConfigError(
                f"t3a replaces the weights of a linear layer, which {method.base.info.name} does not end in; choose "
                f"classifier.kind=linear."
            )
        self._layer = self.network.layer
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        weight = self._layer.weight
        self._supports = F.normalize(weight, dim=1)
        answers = self._layer(weight)
        self._labels, self._entropy = answers.argmax(dim=1), prediction_entropy(answers)

    @torch.no_grad()
    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.target_features(pixels)
        logits = self._layer(z)
        if self.method.supports:
            for rows in even_batches(stream_order(len(z), self.task.config.seed), self.method.batch_size):
                rows = rows.to(z.device)
                self._join(z[rows], logits[rows])
                logits[rows] = z[rows] @ class_prototypes(self._supports, self._labels, logits.shape[1]).T
        return z, torch.softmax(logits, dim=1)

    def _join(self, z: torch.Tensor, logits: torch.Tensor) -> None:
        """Add a batch to the supports, and keep the most confident of each class."""
        supports = torch.cat([self._supports, F.normalize(z, dim=1)])
        labels = torch.cat([self._labels, logits.argmax(dim=1)])
        entropy = torch.cat([self._entropy, prediction_entropy(logits)])
        kept = most_confident(entropy, labels, self.method.supports)
        self._supports, self._labels, self._entropy = supports[kept], labels[kept], entropy[kept]
