"""Test-time methods that change the network for one image, answer it, and put the network back."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from typing import TypeVar

import numpy as np
import torch

from homefold.data.augmentation import apply_augmentation, draw_augmentation
from homefold.data.stream import stream_order
from homefold.features.batches import ImageStore
from homefold.methods.base import TestTimeMethod
from homefold.methods.test_time.wrapping import Wrapped
from homefold.runtime.captured_step import CapturedStep, capturer_for
from homefold.runtime.seeding import generator

__all__ = ["PerImage", "PerImageMethod"]


class PerImageMethod(TestTimeMethod):
    """A test-time method with these hyper-parameters."""

    learning_rate: float
    """η."""
    steps: int
    """For each image."""
    copies: int
    """Of the image, new ones in every step."""

    @property
    def keeps(self) -> bool:
        """Whether what one image taught stays for the images after it, until it is reset."""
        return False


P = TypeVar("P", bound=PerImageMethod)


class PerImage(Wrapped[P]):
    """θ_x = θ after some steps of θ ← θ − η ∇ℓ(a(x); θ); the answer for x is p(· | x; θ_x), and θ is as before.

    a(x) are copies of the image, varied as the training images were. What is random about them follows from the
    image's own pixels and the seed, so an answer depends on nothing else. All work stays on the device until the last
    image is done.

    Where the method keeps what it learns, θ stays as it is after an image, and images come in a shuffled order.
    """

    _start: list[torch.Tensor] | None = None
    _parameters: tuple[torch.Tensor, ...] = ()

    @torch.no_grad()
    def reset(self) -> None:
        if self._start is not None:
            torch._foreach_copy_(self._parameters, self._start)

    @abstractmethod
    def adapted(self, image: torch.Tensor) -> list[torch.Tensor]:
        """The parameters that change, made to ask for gradients; `image: (1, 3, h, w)` is one to try with."""

    @abstractmethod
    def loss(self, varied: torch.Tensor) -> torch.Tensor:
        """ℓ of the copies `varied: (copies, 3, h, w)` of an image, channels last."""

    def respond(self, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor]:
        device, rate = self.task.device, self.method.learning_rate
        store = ImageStore(pixels, device)
        if self._start is None:
            self._parameters = tuple(self.adapted(store.batch(torch.tensor([0]))))
            self._start = [parameter.detach().clone() for parameter in self._parameters]
        parameters, before, keeps = self._parameters, self._start, self.method.keeps

        def adapt_and_answer(image: torch.Tensor, uniform: torch.Tensor, noise: torch.Tensor | None) -> torch.Tensor:
            for varied in self._varied(image, uniform, noise):
                gradients = torch.autograd.grad(self.loss(varied), parameters)
                with torch.no_grad():
                    torch._foreach_add_(parameters, gradients, alpha=-rate)
            with torch.no_grad():
                z = self.network.features(image).float()
                answer = torch.cat([z, torch.softmax(self.network.layer(z), dim=1)], dim=1)
                if not keeps:
                    torch._foreach_copy_(parameters, before)
            return answer

        # Hundreds of small kernels an image: on CUDA they are captured once and replayed for every image.
        answered = CapturedStep(adapt_and_answer, device, capturer_for(device))
        order = stream_order(len(pixels), self.task.config.seed) if keeps else torch.arange(len(pixels))
        answers = []
        try:
            for index in order.tolist():
                image = store.batch(torch.tensor([index]))
                answers.append(answered(image, *self._draw(image, pixels[index])).clone())
        finally:
            if not keeps:
                self.reset()
        classes = len(self.task.source.class_names)
        in_order = torch.cat(answers)[order.argsort().to(self.task.device)]
        features, probabilities = in_order.tensor_split([-classes], dim=1)
        return features, probabilities

    def _draw(self, image: torch.Tensor, pixels: np.ndarray) -> tuple[torch.Tensor, torch.Tensor | None]:
        """The random numbers of all copies for all steps."""
        content = hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()
        random = generator(self.task.config.seed, self.method.own_name, content, device=self.task.device)
        shape = (self.method.steps * self.method.copies, *image.shape[1:])
        return draw_augmentation(shape, self.task.config.features.augmentation, random)

    def _varied(
        self, image: torch.Tensor, uniform: torch.Tensor, noise: torch.Tensor | None
    ) -> tuple[torch.Tensor, ...]:
        """The copies for each step: all of them varied at once, which costs no more than those of one step."""
        steps, copies, augmentation = self.method.steps, self.method.copies, self.task.config.features.augmentation
        if steps == 0:
            return ()
        varied = image.expand(steps * copies, -1, -1, -1)
        if not augmentation.does_nothing:
            varied = apply_augmentation(varied, augmentation, uniform, noise)
        return tuple(varied.contiguous(memory_format=torch.channels_last).split(copies))
