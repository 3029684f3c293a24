"""A step beside the network, against the same step made with an optimiser."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from homefold.methods.training.inner_step import called_with, frozen_call, learned_parameters, stepped


@pytest.fixture
def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(6, 3, generator=torch.Generator().manual_seed(1))


def test_the_step_is_the_one_that_sgd_makes_and_the_network_stays(net, x):
    other, before = copy.deepcopy(net), copy.deepcopy(net.state_dict())
    other(x).square().mean().backward()
    torch.optim.SGD(other.parameters(), lr=0.3).step()
    parameters = learned_parameters(net)
    moved = stepped(called_with(net, parameters, x).square().mean(), parameters, 0.3)
    for name, parameter in other.named_parameters():
        assert torch.allclose(moved[name], parameter, atol=1e-6)
    assert torch.allclose(called_with(net, moved, x), other(x), atol=1e-5)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


@pytest.mark.parametrize(("second_order", "slope"), [(False, 2.0), (True, 2.0 * (1 - 0.1 * 2))])
def test_gradients_reach_the_weights_through_the_step(second_order, slope):
    # θ' = θ - 0.1 · 2 θ = 0.8 θ; d(θ'²)/dθ is 2 θ' where the step counts as given, else 0.8 times that.
    theta = torch.tensor(3.0, requires_grad=True)
    moved = stepped(theta**2, {"theta": theta}, 0.1, second_order=second_order)["theta"]
    assert moved.item() == pytest.approx(2.4)
    (gradient,) = torch.autograd.grad(moved**2, theta)
    assert gradient.item() == pytest.approx(slope * 2.4)


def test_the_gradient_of_each_tensor_is_clipped_by_itself():
    long, short = torch.tensor([3.0, 4.0], requires_grad=True), torch.tensor([0.3, 0.4], requires_grad=True)
    loss = (long.square().sum() + short.square().sum()) / 2
    moved = stepped(loss, {"long": long, "short": short}, 1.0, clip=2.0)
    assert moved["long"].tolist() == pytest.approx([3 - 1.2, 4 - 1.6])
    assert moved["short"].tolist() == pytest.approx([0.0, 0.0])


def test_what_the_loss_does_not_depend_on_stays():
    used, unused = torch.ones(1, requires_grad=True), torch.ones(1, requires_grad=True)
    moved = stepped(used.sum(), {"used": used, "unused": unused}, 0.5)
    assert (moved["used"].item(), moved["unused"] is unused) == (0.5, True)


def test_a_frozen_module_gives_its_input_a_gradient_and_takes_none(net, x):
    x.requires_grad_(True)
    before = copy.deepcopy(net.state_dict())
    frozen_call(net, x).square().sum().backward()
    assert x.grad.abs().sum() > 1e-3
    assert all(parameter.grad is None for parameter in net.parameters())
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())
