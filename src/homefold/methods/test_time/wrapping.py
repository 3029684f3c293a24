"""What test-time methods share: a copy of a finished method's network, and answers that come from it."""

from __future__ import annotations

import time
from abc import abstractmethod
from typing import Any, Generic, TypeVar

import numpy as np
import torch
from torch import nn

from homefold.errors import ConfigError
from homefold.features import extract_features
from homefold.features.extraction import extract_views
from homefold.methods.base import Answers, TestTimeMethod, TrainedMethod, plain_predictions
from homefold.stages.task import ImageSet, TrainingTask
from homefold.store.stage_store import Stage

__all__ = ["Wrapped", "reached_parameters"]

M = TypeVar("M", bound=TestTimeMethod)


def reached_parameters(features: nn.Module, images: torch.Tensor) -> list[torch.Tensor]:
    """The parameters that z depends on for such images, in need of gradients.

    A learner may hold others, such as heads that serve its training only.
    """
    parameters: list[torch.Tensor] = list(features.requires_grad_(True).parameters())
    if not parameters:
        return []
    gradients = torch.autograd.grad(features(images).sum(), parameters, allow_unused=True)
    features.requires_grad_(False)
    reached = [p for p, gradient in zip(parameters, gradients, strict=True) if gradient is not None]
    return [parameter.requires_grad_(True) for parameter in reached]


class Wrapped(TrainedMethod, Generic[M]):
    """A finished method whose network, a copy, frozen and in eval mode, answers in another way.

    Args:
        method: the test-time method, which knows what it wraps.
        trained: the wrapped method.
        task: what it was trained on.
    """

    def __init__(self, method: M, trained: TrainedMethod, task: TrainingTask) -> None:
        self.method, self.trained, self.task = method, trained, task
        network = trained.classifier_network()
        if network is None:
            raise ConfigError(
                f"{method.own_name} cannot wrap {method.base.info.name}, which does not answer by one network and "
                f"its classifier layer. Methods that do can be wrapped: deep-all, rotation, vae, gan, nearest and "
                f"their ablations, and every other training-time method whose classifier_network is not None; "
                f"test-time methods cannot."
            )
        self.network = network.eval().requires_grad_(False)

    @abstractmethod
    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        """Features `(n, d)` and probabilities `(n, classes)` of `pixels: (n, h, w, 3)` uint8, in their order."""

    def target_features(self, pixels: np.ndarray) -> torch.Tensor:
        """Features `(n, d)` of target images `(n, h, w, 3)`, in as many views as the settings say."""
        return extract_views(self.network.features, pixels, self.task.device, self.task.config.views())

    def training_features(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Features `(n, d)` and labels `(n,)` of what was trained on: no held-out images, but those adapted to."""
        source = self.task.source
        train, _ = self.task.split
        z = self.trained.source_features()
        if z is None:
            z = extract_features(self.network.features, source.images, self.task.device)
        rows = torch.from_numpy(train).to(z.device)
        bank, labels = z[rows], torch.from_numpy(source.labels).to(z.device)[rows]
        if self.task.adapt is None:
            return bank, labels
        few = extract_features(self.network.features, self.task.adapt.images, self.task.device)
        return torch.cat([bank, few]), torch.cat([labels, torch.from_numpy(self.task.adapt.labels).to(z.device)])

    @property
    def stages(self) -> tuple[Stage, ...]:
        return self.trained.stages

    def answer(self, images: ImageSet) -> Answers:
        classes = self.task.source.class_names
        if not len(images.pixels):
            return Answers(plain_predictions(classes, np.empty((0, len(classes)), dtype=np.float32)), 0.0)
        began = time.perf_counter()
        z, probabilities = self.respond(images.pixels)
        found = probabilities.cpu().numpy()
        seconds = time.perf_counter() - began
        return Answers(plain_predictions(classes, found), seconds, z)

    def source_features(self) -> torch.Tensor | None:
        return self.trained.source_features()

    def facts(self) -> dict[str, Any]:
        return self.trained.facts()

    def networks(self) -> tuple[nn.Module, ...]:
        return self.trained.networks()
