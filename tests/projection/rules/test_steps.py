"""Step rules against their equations."""

from __future__ import annotations

import pytest
import torch

from homefold.config.search import SearchConfig
from homefold.projection.rules.steps import Adam, Gradient, Normalised, StepRule, walk


def walked(rule: StepRule, u: torch.Tensor, *gradients: torch.Tensor) -> torch.Tensor:
    """Where the rule is after a step for each gradient."""
    given = iter(gradients)
    *_, (_, after) = walk(rule, lambda u: (u[:, 0], next(given)), u, len(gradients))
    return after


def test_plain_gradient():
    rule = Gradient(SearchConfig(rate=0.5))
    assert walked(rule, torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, -2.0]])).tolist() == [[0.0, 3.0]]


def test_a_normalised_step_has_the_same_relative_length_whatever_the_gradient():
    u = torch.tensor([[3.0, 4.0], [3.0, 4.0]])
    gradient = torch.tensor([[1e-6, 0.0], [1e6, 0.0]])
    moved = (walked(Normalised(SearchConfig(rate=0.01, momentum=0.0)), u, gradient) - u).norm(dim=1)
    assert moved.tolist() == pytest.approx([0.05, 0.05], rel=1e-5)


def test_normalised_momentum_is_nesterovs():
    u = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    parameter = torch.nn.Parameter(u.clone())
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, nesterov=True)
    gradients = [torch.tensor([[1.0 + i, 2.0]], dtype=torch.float64) for i in range(5)]
    for gradient in gradients:
        parameter.grad = gradient * parameter.detach().norm() / gradient.norm()
        optimizer.step()
    torch.testing.assert_close(
        walked(Normalised(SearchConfig(rate=0.1, momentum=0.9)), u, *gradients), parameter.detach()
    )


def test_a_zero_gradient_moves_nothing():
    u = torch.ones(1, 3)
    for rule in (Gradient(SearchConfig(rate=0.1)), Normalised(SearchConfig(rate=0.1)), Adam(SearchConfig(rate=0.1))):
        assert walked(rule, u, torch.zeros(1, 3)).tolist() == u.tolist()


def test_adam_is_torchs():
    torch.manual_seed(0)
    u = torch.randn(4, 3, dtype=torch.float64)
    parameter = torch.nn.Parameter(u.clone())
    optimizer = torch.optim.Adam([parameter], lr=0.05)
    gradients = [torch.randn(4, 3, dtype=torch.float64) for _ in range(10)]
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    torch.testing.assert_close(walked(Adam(SearchConfig(rate=0.05)), u, *gradients), parameter.detach())
