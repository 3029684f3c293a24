"""One step of training: bytes of a batch in, varied, through the network, and back into the weights."""

from __future__ import annotations

from collections.abc import Callable

import torch

from homefold.config.augmentation import AugmentationConfig
from homefold.config.features import Compile
from homefold.data.augmentation import apply_augmentation, draw_augmentation
from homefold.errors import ConfigError
from homefold.features.batches import to_pixels
from homefold.runtime.captured_step import CapturedStep, capturer_for
from homefold.runtime.device import autocast
from homefold.runtime.processes import add_up, current_processes
from homefold.runtime.triton_ready import why_no_triton

__all__ = ["GradientStep", "TakeGradient", "require_even_parts", "worth_compiling"]

TakeGradient = Callable[[Callable[[], torch.Tensor]], torch.Tensor]
"""Leaves the gradient that the optimiser steps by at the weights, and returns the loss. Given is what computes loss and
gradient at the weights as they are; it may be called more than once, with weights moved in between and put back."""

# Compiling takes about half a minute and saves a few milliseconds a step.
_STEPS_WORTH_COMPILING = 20_000


def worth_compiling(setting: Compile, device: torch.device, steps: int) -> bool:
    """Whether a training of so many steps is compiled.

    Never where equal bytes are asked for on CUDA: the compiler chooses among kernels by timing them.
    """
    if device.type == "cuda" and torch.are_deterministic_algorithms_enabled():
        return False
    pays = device.type == "cuda" and steps >= _STEPS_WORTH_COMPILING
    return setting == "on" or (setting == "auto" and pays and not why_no_triton(device))


class GradientStep:
    """Augments a batch on its device, computes the loss and its gradient, and lets the optimiser step.

    Nothing in it waits for the device. On CUDA the whole step is captured once and replayed, unless `captured` is off.
    Among several processes each gives its part of the batch, and the gradients are added up.

    Args:
        loss: the loss of images `(b, 3, h, w)` in [0, 1] and whatever tensors come with a batch; called under autocast.
        optimizer, scaler: of the weights; the scaler is that of float16.
        augmentation: how images are varied.
        device, dtype: where batches lie, and what the network computes in.
        compiled: compile the augmentation.
        captured: capture the step as a CUDA graph; the loss must then do the same on every call.
        take_gradient: which gradient it is that the optimiser steps by; None for the one at the weights.
    """

    def __init__(
        self,
        loss: Callable[..., torch.Tensor],
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler,
        augmentation: AugmentationConfig,
        device: torch.device,
        dtype: torch.dtype,
        *,
        compiled: bool = False,
        captured: bool = True,
        take_gradient: TakeGradient | None = None,
    ) -> None:
        self._loss, self._optimizer, self._scaler = loss, optimizer, scaler
        self._augmentation, self._device, self._dtype = augmentation, device, dtype
        self._take_gradient = take_gradient
        self._processes = current_processes()
        self._vary = torch.compile(_vary, dynamic=False) if compiled else _vary
        # The scaler of float16 decides on the host, and other processes cannot be waited for in a capture.
        capturable = captured and dtype != torch.float16 and self._processes.count == 1
        self._step = CapturedStep(self._learn, device, capturer_for(device, enabled=capturable))

    def __call__(
        self, pixels: torch.Tensor, *others: torch.Tensor, rates: list[float], generator: torch.Generator
    ) -> torch.Tensor:
        """The loss before the step; among several processes, this one's share.

        Args:
            pixels: this process's part of the batch: `(b, h, w, 3)` bytes, or features `(b, d)` if nothing is varied.
            others: what the loss takes beside the images, such as labels `(b,)`.
            rates: learning rate of each group of parameters.
            generator: of the augmentation, in the same state in all processes.
        """
        uniform, noise = self._draw(pixels, generator)
        return self._step(pixels, uniform, noise, *others, *rates)

    def varied(self, pixels: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        """Images `(b, 3, h, w)` as a step would see them, without one being made."""
        return self._vary(pixels, self._augmentation, *self._draw(pixels, generator))

    def _draw(
        self, pixels: torch.Tensor, generator: torch.Generator
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """The random numbers of the whole batch, and of those this process's: as one process would draw them."""
        if self._augmentation.does_nothing:
            return None, None
        size, height, width, channels = pixels.shape
        whole = size * self._processes.count
        uniform, noise = draw_augmentation((whole, channels, height, width), self._augmentation, generator)
        own = self._processes.part(whole)
        return uniform[:, own], None if noise is None else noise[own]

    def _learn(
        self, pixels: torch.Tensor, uniform: torch.Tensor | None, noise: torch.Tensor | None, *rest: torch.Tensor
    ) -> torch.Tensor:
        groups = self._optimizer.param_groups
        others, rates = rest[: -len(groups)], rest[-len(groups) :]
        for group, rate in zip(groups, rates, strict=True):
            group["lr"] = rate
        images = self._vary(pixels, self._augmentation, uniform, noise)

        def gradient() -> torch.Tensor:
            with autocast(self._device, self._dtype):
                loss = self._loss(images, *others)
            self._optimizer.zero_grad(set_to_none=True)
            self._scaler.scale(loss).backward()
            if self._processes.count > 1:
                self._add_up_gradients()
            return loss.detach()

        loss = self._take_gradient(gradient) if self._take_gradient else gradient()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        return loss

    def _add_up_gradients(self) -> None:
        gradients = []
        for group in self._optimizer.param_groups:
            for parameter in group["params"]:
                # Every process sends the same, also where its own part of the batch did not touch a parameter.
                if parameter.grad is None:
                    parameter.grad = torch.zeros_like(parameter)
                gradients.append(parameter.grad)
        add_up(gradients)


def _vary(
    pixels: torch.Tensor, config: AugmentationConfig, uniform: torch.Tensor | None, noise: torch.Tensor | None
) -> torch.Tensor:
    """Bytes `(b, h, w, 3)` to varied images `(b, 3, h, w)`; features, which are floats already, stay as they are."""
    images = to_pixels(pixels) if pixels.dtype == torch.uint8 else pixels
    return images if uniform is None else apply_augmentation(images, config, uniform, noise)


def require_even_parts(size: int, count: int) -> None:
    """Refuse a batch that several processes cannot share evenly."""
    if size % count:
        raise ConfigError(
            f"a batch of {size} images cannot be shared evenly by {count} processes; choose a "
            f"features.batch_size that is a multiple of {count} and no larger than the number of training images."
        )
