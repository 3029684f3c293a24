"""What a training-time method is made of: a network, a classifier, and a loss of its own; by default Deep All."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, Self

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.batchnorm import _BatchNorm
from typing_extensions import TypeVar

from homefold.features.averaging import TrainingAverage
from homefold.features.loop import Batch, ParameterGroup, TrainingImages
from homefold.features.network import FeatureNet
from homefold.runtime.seeding import isolated_seed

__all__ = [
    "Batch",
    "Learner",
    "LearningTask",
    "ParameterGroup",
    "TrainingImages",
    "domain_means",
    "ramp",
    "reverse_gradient",
    "scale_gradient",
]

S = TypeVar("S", default=Any)


@dataclass(frozen=True)
class LearningTask:
    """What a learner is told of its data before it sees any.

    Args:
        num_classes: how many labels there are.
        num_domains: how many source domains there are.
        num_images: how many images are trained on.
        image_size: `(height, width)`.
        seed: of the run; the modules a learner builds are drawn from it without any doing of its own.
    """

    num_classes: int
    num_domains: int
    num_images: int
    image_size: tuple[int, int]
    seed: int


class Learner(nn.Module, Generic[S]):
    """z = f(x), logits = W z + b, and CE(logits, y) as the loss: Deep All. A method changes what it needs to.

    The training loop calls `loss` under autocast with the learner in training mode, takes one backward pass and one
    step of SGD. Random numbers come from torch's own generators, which the loop seeds for each epoch. What must
    survive a stop between two epochs is a parameter or a buffer of fixed shape.

    Args:
        net: f, with its pretrained weights if there are any.
        task: the size of things.
        settings: the method's, where it has some.
    """

    capturable = False
    """Whether `loss` does the same at every step: no choice made in Python, no look at `Batch.step`. Such a step is
    captured once as a CUDA graph and replayed, which is faster."""

    def __init__(self, net: FeatureNet, task: LearningTask, settings: S | None = None) -> None:
        super().__init__()
        self.net, self.task = net, task
        self.settings: S = settings  # type: ignore[assignment]  # None only where the method has none
        # The same stream as Deep All's layer: with equal losses both are the same training.
        with isolated_seed(task.seed, "objective"):
            self.classifier = nn.Linear(net.feature_dim, task.num_classes)

    def train(self, mode: bool = True) -> Self:
        """To training or out of it; where the settings say so, batch normalisation keeps its statistics in both."""
        super().train(mode)
        if getattr(self.settings, "statistics", "learned") == "kept":
            for module in self.modules():
                if isinstance(module, _BatchNorm):
                    module.eval()
        return self

    def loss(self, batch: Batch) -> torch.Tensor:
        """What a step minimises: a scalar. A second pass or an adversary goes through here too."""
        return self.cross_entropy(self.logits(batch.images), batch.labels)

    def features(self, images: torch.Tensor) -> torch.Tensor:
        """z `(n, d)` that predictions are made from. images: `(n, 3, h, w)` in [0, 1]."""
        z: torch.Tensor = self.net(images)
        return z

    def classify(self, z: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)` of `z: (n, d)`, in full precision; linear in z, as `linear_layer` says."""
        with torch.autocast(z.device.type, enabled=False):
            logits: torch.Tensor = self.classifier(z.float())
            return logits

    def linear_layer(self) -> nn.Linear:
        """A copy of the layer that `classify` applies; to be changed along with it."""
        return copy.deepcopy(self.classifier)

    def logits(self, images: torch.Tensor) -> torch.Tensor:
        """Logits `(n, classes)` of `images: (n, 3, h, w)`."""
        return self.classify(self.features(images))

    def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Features and logits of images."""
        z = self.features(images)
        return z, self.classify(z)

    def cross_entropy(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Mean cross entropy in full precision."""
        return F.cross_entropy(logits.float(), labels)

    def adaptation_loss(self, batch: Batch) -> torch.Tensor:
        """What few-shot adaptation minimises, on batches of the source with the target's samples as one domain more."""
        return self.cross_entropy(self.logits(batch.images), batch.labels)

    def take_gradient(self, gradient: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Leave the gradient that the optimiser steps by at the parameters, and return the loss.

        `gradient` does both at the parameters as they are; a method may call it again with them moved, and put them
        back.
        """
        return gradient()

    def begins_anew(self, batch: Batch) -> bool:
        """Whether the optimiser forgets its averages before this step, as where a penalty suddenly weighs more."""
        return False

    def make_average(self) -> TrainingAverage | None:
        """Which weights are averaged; None for those that the settings say."""
        return None

    def parameter_groups(self) -> list[ParameterGroup]:
        """What is trained, and at which multiple of the learning rate."""
        return [ParameterGroup([parameter for parameter in self.parameters() if parameter.requires_grad])]

    def epoch_start(self, epoch: int, images: TrainingImages) -> None:
        """Called before each epoch, from 0, for what looks at all training images; not in few-shot adaptation."""


def domain_means(values: torch.Tensor, domains: torch.Tensor, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The mean of `values: (n,)` over each of `count` domains, `(count,)`, and which of them the batch holds.

    >>> domain_means(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([0, 0, 2]), 3)
    (tensor([2., 0., 5.]), tensor([ True, False,  True]))
    """
    member = F.one_hot(domains, count).to(values.dtype)
    sizes = member.sum(dim=0)
    return values @ member / sizes.clamp(min=1), sizes > 0


class _ScaledGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, scale: float) -> torch.Tensor:
        ctx.scale = scale
        return x.view_as(x)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.scale * gradients[0], None


def scale_gradient(x: torch.Tensor, scale: float) -> torch.Tensor:
    """`x` as it is; on the way back its gradient is multiplied by `scale`.

    >>> x = torch.ones(1, requires_grad=True)
    >>> (3 * scale_gradient(x, 0.5)).sum().backward()
    >>> x.grad
    tensor([1.5000])
    """
    scaled: torch.Tensor = _ScaledGradient.apply(x, scale)
    return scaled


def reverse_gradient(x: torch.Tensor, weight: float = 1.0) -> torch.Tensor:
    """`x` itself, whose gradient comes back times −`weight`: what follows learns, what came before unlearns it."""
    return scale_gradient(x, -weight)


def ramp(progress: float) -> float:
    """2 / (1 + exp(-10 p)) - 1: how far an adversary's weight has risen at `progress` p in [0, 1] of the training.

    >>> [round(ramp(p), 3) for p in (0.0, 0.1, 1.0)]
    [0.0, 0.462, 1.0]
    """
    return math.tanh(5 * progress)
