"""Tent: batch normalisation re-fitted to the target by minimising the entropy of predictions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import nn

from homefold.classifier.entropy import prediction_entropy
from homefold.config.values import checked_value
from homefold.data.stream import even_batches, stream_order
from homefold.errors import ConfigError
from homefold.features.batches import ImageStore
from homefold.methods.base import TestTimeMethod, TrainedMethod
from homefold.methods.recipe import PRETRAINED, SMALL, Recipe
from homefold.methods.registry import method_named
from homefold.methods.test_time.wrapping import Wrapped
from homefold.methods.training.learner_method import tunable
from homefold.stages.task import TrainingTask

__all__ = ["Tent"]

_MOMENTUM = 0.9


@method_named(
    "tent",
    "Tent",
    2021,
    "Wang et al., ICLR 2021",
    "Minimises the entropy of its answers by the scales and shifts of batch normalisation.",
    touches_target=True,
    stateless=False,
    wraps="deep-all",
)
@dataclass(frozen=True)
class Tent(TestTimeMethod):
    """min over γ, β of (1/b) Σ_i H(p(· | x_i)), one step of SGD with momentum or of Adam a batch of b target images.

    γ and β are the scales and shifts of every batch normalisation of maps, whose means and variances are the batch's
    own. A batch is answered by the pass that its step is computed from; the step serves the batches after it.

    The authors' recipe has SGD at 0.00025 and batches of 64 for networks pretrained on ImageNet, Adam at 0.001 and
    batches of 200 for small ones.

    Null setting: statistics source and learning_rate 0. With batch statistics and rate 0 this is plain test-time
    normalisation.
    """

    recipes = {  # noqa: RUF012 - a constant
        PRETRAINED: Recipe(own={"optimiser": "sgd", "learning_rate": 2.5e-4, "batch_size": 64}),
        SMALL: Recipe(own={"optimiser": "adam", "learning_rate": 1e-3, "batch_size": 200}),
    }

    learning_rate: float = tunable(1e-3, 1e-4, 1e-2, log=True)
    """Of the steps."""
    optimiser: Literal["adam", "sgd"] = tunable("adam", choices=("adam", "sgd"))
    """What steps: adam, or sgd with momentum 0.9."""
    batch_size: int = tunable(64, choices=(32, 64, 128, 200), least=1)
    """b: target images that arrive together."""
    statistics: Literal["batch", "source"] = tunable("batch", choices=("batch",))
    """Normalise by the batch's own mean and variance, or by those of the training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        checked_value(Literal["batch", "source"], self.statistics, "statistics")
        checked_value(Literal["adam", "sgd"], self.optimiser, "optimiser")

    def wrap(self, trained: TrainedMethod, task: TrainingTask) -> TrainedMethod:
        return _Renormalised(self, trained, task)


class _Renormalised(Wrapped[Tent]):
    def __init__(self, method: Tent, trained: TrainedMethod, task: TrainingTask) -> None:
        super().__init__(method, trained, task)
        norms = [item for item in self.network.features.modules() if isinstance(item, nn.BatchNorm2d)]
        self._parameters: list[torch.Tensor] = [p for norm in norms for p in norm.parameters()]
        if not self._parameters:
            raise ConfigError(
                f"tent changes batch normalisation, and the network of {method.base.info.name} has none; choose a "
                f"backbone that has, such as digits-bn or resnet18."
            )
        for norm in norms if method.statistics == "batch" else []:
            # Without running statistics a layer normalises by its batch, in eval mode too.
            norm.track_running_stats, norm.running_mean, norm.running_var = False, None, None
        for parameter in self._parameters:
            parameter.requires_grad_(True)
        self._before = [parameter.detach().clone() for parameter in self._parameters]
        self.reset()

    @torch.no_grad()
    def reset(self) -> None:
        torch._foreach_copy_(self._parameters, self._before)
        rate = self.method.learning_rate
        self._optimizer: torch.optim.Optimizer = (
            torch.optim.Adam(self._parameters, lr=rate)
            if self.method.optimiser == "adam"
            else torch.optim.SGD(self._parameters, lr=rate, momentum=_MOMENTUM)
        )

    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        store, order = ImageStore(pixels, self.task.device), stream_order(len(pixels), self.task.config.seed)
        features, logits = [], []
        for rows in even_batches(order, self.method.batch_size):
            z = self.network.features(store.batch(rows)).float()
            answer = self.network.layer(z)
            self._optimizer.zero_grad(set_to_none=True)
            prediction_entropy(answer).mean().backward()
            self._optimizer.step()
            features.append(z.detach())
            logits.append(answer.detach())
        back = order.argsort().to(self.task.device)
        return torch.cat(features)[back], torch.softmax(torch.cat(logits)[back], dim=1)
