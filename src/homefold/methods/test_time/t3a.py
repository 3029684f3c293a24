"""T3A: a linear classifier whose weights are replaced by prototypes of confident target features."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from homefold.classifier.memory import ARRIVE_TOGETHER, SUPPORTS, ClassMemory
from homefold.errors import ConfigError
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped
from homefold.methods.training.learner_method import tunable
from homefold.stages.task import TrainingTask

__all__ = ["T3A"]


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

    supports: int = tunable(SUPPORTS, choices=(1, 5, 20, 50, 100))
    """M: supports kept of each class."""
    batch_size: int = tunable(ARRIVE_TOGETHER, choices=(1, 32, 64), least=1)
    """Target images that arrive together."""

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Adjusted(self, trained, task)


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

    def reset(self) -> None:
        self._memory = ClassMemory(self._layer, self.method.supports)

    @torch.no_grad()
    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        z = self.target_features(pixels)
        logits = self._layer(z)
        if self.method.supports:
            logits = self._memory.answers(z, logits, self.task.config.seed, self.method.batch_size)
        return z, torch.softmax(logits, dim=1)
