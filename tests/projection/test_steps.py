"""Step rules against their equations."""

from __future__ import annotations

import pytest
import torch

from homefold.projection.steps import Adam, Gradient, Normalised


def test_plain_gradient():
    rule = Gradient(0.5)
    assert rule.step(torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, -2.0]])).tolist() == [[0.0, 3.0]]


def test_a_normalised_step_has_the_same_relative_length_whatever_the_gradient():
    u = torch.tensor([[3.0, 4.0], [3.0, 4.0]])
    gradient = torch.tensor([[1e-6, 0.0], [1e6, 0.0]])
    rule = Normalised(0.01, momentum=0.0)
    rule.reset(u)
    moved = (rule.step(u, gradient) - u).norm(dim=1)
    assert moved.tolist() == pytest.approx([0.05, 0.05], rel=1e-5)


def test_normalised_momentum_is_nesterovs():
    u = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    parameter = torch.nn.Parameter(u.clone())
    optimizer = torch.optim.SGD([parameter], lr=0.1, momentum=0.9, nesterov=True)
    rule = Normalised(0.1, momentum=0.9)
    rule.reset(u)
    for i in range(5):
        gradient = torch.tensor([[1.0 + i, 2.0]], dtype=torch.float64)
        parameter.grad = gradient * parameter.detach().norm() / gradient.norm()
        u = rule.step(u, gradient)
        optimizer.step()
    torch.testing.assert_close(u, parameter.detach())


def test_a_zero_gradient_moves_nothing():
    u = torch.ones(1, 3)
    for rule in (Gradient(0.1), Normalised(0.1), Adam(0.1)):
        rule.reset(u)
        assert rule.step(u, torch.zeros(1, 3)).tolist() == u.tolist()


def test_adam_is_torchs():
    torch.manual_seed(0)
    u = torch.randn(4, 3, dtype=torch.float64)
    parameter = torch.nn.Parameter(u.clone())
    optimizer = torch.optim.Adam([parameter], lr=0.05)
    rule = Adam(0.05)
    rule.reset(u)
    for _ in range(10):
        gradient = torch.randn(4, 3, dtype=torch.float64)
        parameter.grad = gradient.clone()
        u = rule.step(u, gradient)
        optimizer.step()
    torch.testing.assert_close(u, parameter.detach())
