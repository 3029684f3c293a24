"""A step of gradient descent beside a network, for losses that look at where its weights would go."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from torch.func import functional_call

__all__ = ["called_with", "frozen_call", "learned_parameters", "stepped"]


def learned_parameters(module: nn.Module) -> dict[str, torch.Tensor]:
    """The weights of a module that learn, by name."""
    return {name: parameter for name, parameter in module.named_parameters() if parameter.requires_grad}


def stepped(
    loss: torch.Tensor,
    parameters: Mapping[str, torch.Tensor],
    rate: float,
    *,
    clip: float = math.inf,
    second_order: bool = False,
) -> dict[str, torch.Tensor]:
    """θ' = θ - rate ∇ loss, from which gradients reach θ; those that the loss does not depend on stay.

    Args:
        loss: a scalar whose graph is kept.
        parameters: θ by name.
        rate: of the step.
        clip: the largest norm that the gradient of one tensor may have.
        second_order: whether gradients also pass through ∇ loss, which otherwise counts as given.
    """
    gradients = torch.autograd.grad(
        loss, list(parameters.values()), retain_graph=True, create_graph=second_order, allow_unused=True
    )
    moved = {}
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        if gradient is not None and clip < math.inf:
            gradient = gradient * (clip / gradient.norm().clamp(min=clip))
        moved[name] = parameter if gradient is None else parameter - rate * gradient
    return moved


def called_with(module: nn.Module, parameters: Mapping[str, torch.Tensor], x: torch.Tensor) -> Any:
    """`module(x)` with `parameters` in the place of its own; its running statistics stay as they are."""
    buffers = {name: buffer.clone() for name, buffer in module.named_buffers()}
    return functional_call(module, {**parameters, **buffers}, (x,))


def frozen_call(module: nn.Module, x: torch.Tensor) -> Any:
    """`module(x)` with a gradient for `x` but none for the module, whose running statistics stay as they are."""
    return called_with(module, {name: parameter.detach() for name, parameter in module.named_parameters()}, x)
