"""Step rules: from a latent and its gradient to the next latent, each row on its own."""

from __future__ import annotations

import math
from typing import Protocol

import torch

__all__ = ["Adam", "Gradient", "Normalised", "StepRule"]

_SMALLEST = 1e-12
_SMALLEST_SCALE = 1e-8


class StepRule(Protocol):
    """Moves latents `(n, k)`; holds whatever it remembers between steps."""

    def reset(self, u: torch.Tensor) -> None:
        """Forget, and get ready for latents shaped like `u`."""

    def step(self, u: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        """The next latents."""


class Gradient:
    """Plain gradient descent, as Algorithm 1 prints it: u ← u − β ∇L_S.

    Args:
        rate: β.
    """

    def __init__(self, rate: float) -> None:
        self.rate = rate

    def reset(self, u: torch.Tensor) -> None:
        pass

    def step(self, u: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        return u - self.rate * gradient


class Normalised:
    """Steps of a constant length relative to u, with Nesterov momentum, as the authors ran it.

    g = ‖u‖ ∇L_S / ‖∇L_S‖;  v ← μ v + g;  u ← u − β (g + μ v). The loss curve of such steps falls steadily and then
    flattens, where an elbow means something; a plain gradient's curve bends most at its first steps.

    Args:
        rate: β, the length of a step without momentum, as a fraction of ‖u‖.
        momentum: μ.
    """

    def __init__(self, rate: float, momentum: float = 0.9) -> None:
        self.rate, self.momentum = rate, momentum

    def reset(self, u: torch.Tensor) -> None:
        self._velocity = torch.zeros_like(u)

    def step(self, u: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        length = gradient.square().sum(1, keepdim=True).sqrt().clamp_min(_SMALLEST)
        relative = gradient * (u.square().sum(1, keepdim=True).sqrt() / length)
        self._velocity = self.momentum * self._velocity + relative
        return u - self.rate * (relative + self.momentum * self._velocity)


class Adam:
    """Adam, without weight decay.

    Args:
        rate: step size.
        beta1: decay of the mean of gradients.
        beta2: decay of the mean of their squares.
    """

    def __init__(self, rate: float, beta1: float = 0.9, beta2: float = 0.999) -> None:
        self.rate, self.beta1, self.beta2 = rate, beta1, beta2

    def reset(self, u: torch.Tensor) -> None:
        self._mean = torch.zeros_like(u)
        self._square = torch.zeros_like(u)
        self._scale = torch.empty_like(u)
        self._count = 0

    def step(self, u: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
        self._count += 1
        self._mean.mul_(self.beta1).add_(gradient, alpha=1 - self.beta1)
        self._square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        correction = math.sqrt(1 - self.beta2**self._count)
        scale = torch.sqrt(self._square, out=self._scale).add_(_SMALLEST_SCALE * correction)
        return torch.addcdiv(u, self._mean, scale, value=-self.rate * correction / (1 - self.beta1**self._count))
