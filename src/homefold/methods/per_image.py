"""Test-time methods that change the network for one image, answer it, and put the network back."""

from __future__ import annotations

import hashlib
from abc import abstractmethod

import numpy as np
import torch

from homefold.features.batches import ImageStore
from homefold.methods.base import TrainedMethod, TrainingTask
from homefold.methods.wrapping import Wrapped
from homefold.seeding import generator

__all__ = ["PerImage"]


class PerImage(Wrapped):
    """θ_x = θ after some steps of θ ← θ − η ∇ℓ(x; θ); the answer for x is p(· | x; θ_x), and θ is as before.

    What is random about an image follows from its own pixels and the seed, so an answer depends on nothing else. All
    work stays on the device until the last image is done.

    Args:
        name: of the test-time method.
        base: name of the wrapped method.
        trained: the wrapped method.
        task: what it was trained on.
        learning_rate: η.
        steps: for each image.
    """

    def __init__(
        self, name: str, base: str, trained: TrainedMethod, task: TrainingTask, *, learning_rate: float, steps: int
    ) -> None:
        super().__init__(name, base, trained, task)
        self._name, self._learning_rate, self._steps = name, learning_rate, steps

    @abstractmethod
    def adapted(self, image: torch.Tensor) -> list[torch.Tensor]:
        """The parameters that change, made to ask for gradients; `image: (1, 3, h, w)` is one to try with."""

    @abstractmethod
    def loss(self, image: torch.Tensor, random: torch.Generator) -> torch.Tensor:
        """ℓ of `image: (1, 3, h, w)` in [0, 1]."""

    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        store = ImageStore(pixels, self.task.device)
        parameters = self.adapted(store.batch(torch.tensor([0])))
        before = [parameter.detach().clone() for parameter in parameters]
        features, probabilities = [], []
        try:
            for index in range(len(pixels)):
                image = store.batch(torch.tensor([index]))
                self._adapt(image, parameters, self._random(pixels[index]))
                with torch.no_grad():
                    z = self.network.features(image).float()
                    features.append(z)
                    probabilities.append(torch.softmax(self.network.layer(z), dim=1))
                    torch._foreach_copy_(parameters, before)
        finally:
            with torch.no_grad():
                torch._foreach_copy_(parameters, before)
        return torch.cat(features), torch.cat(probabilities)

    def _adapt(self, image: torch.Tensor, parameters: list[torch.Tensor], random: torch.Generator) -> None:
        for _ in range(self._steps):
            gradients = torch.autograd.grad(self.loss(image, random), parameters)
            with torch.no_grad():
                torch._foreach_add_(parameters, gradients, alpha=-self._learning_rate)

    def _random(self, pixels: np.ndarray) -> torch.Generator:
        content = hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()
        return generator(self.task.config.seed, self._name, content, device=self.task.device)
