"""The gradient where the loss is worst nearby (SAM), in the place of the one at the weights themselves."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

__all__ = ["sharpness_aware_gradient"]

_LEAST_NORM = 1e-12


def sharpness_aware_gradient(
    gradient: Callable[[], torch.Tensor], modules: list[nn.Module], radius: float
) -> torch.Tensor:
    """Leave at the weights θ of `modules` the gradient at θ + ρ g / ‖g‖, where g is the one at θ; the loss at θ.

    For a `take_gradient` of the training loop. Weights come back from a copy, so not a bit of them is lost, and running
    statistics are those of the first pass alone. Nothing waits for the device or is decided on the host: the step can
    be captured. g may be scaled by any factor, as float16's is; among several processes it is their sum, so that all go
    the same way.

    Args:
        gradient: computes the loss, and leaves its gradient at the weights.
        modules: what is trained.
        radius: ρ.
    """
    loss = gradient()
    own = [weight for module in modules for weight in module.parameters()]
    moved = [(weight, weight.grad) for weight in own if weight.grad is not None]
    changing = [weight for weight, _ in moved] + [buffer for module in modules for buffer in module.buffers()]
    before = [value.detach().clone() for value in changing]
    with torch.no_grad():
        norm = torch.stack([slope.norm() for _, slope in moved]).norm()
        for weight, slope in moved:
            weight.add_(slope * (radius / norm.clamp(min=_LEAST_NORM)))
    gradient()
    with torch.no_grad():
        for value, kept in zip(changing, before, strict=True):
            value.copy_(kept)
    return loss
