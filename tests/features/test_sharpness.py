"""The sharpness-aware gradient, against the two passes written out."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn

from homefold.config.augmentation import augmentation_preset
from homefold.data.splits import holdout_split
from homefold.features import build_feature_net, train_features
from homefold.features.averaging import ValleyAverage
from homefold.features.gradient_step import GradientStep
from homefold.features.sharpness import sharpness_aware_gradient
from homefold.features.training import _FeatureRun

CPU = torch.device("cpu")
RADIUS = 0.3


@pytest.fixture
def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 3))


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(8, 5, generator=torch.Generator().manual_seed(1))


def loss_of(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return nn.functional.cross_entropy(net(x), torch.arange(len(x)) % 3)


def taken(net: nn.Module, x: torch.Tensor, radius: float = RADIUS) -> torch.Tensor:
    def gradient() -> torch.Tensor:
        net.zero_grad(set_to_none=True)
        loss = loss_of(net, x)
        loss.backward()
        return loss.detach()

    return sharpness_aware_gradient(gradient, [net], radius)


def written_out(net: nn.Module, x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    """The loss at θ, and the gradient at θ + ρ g / ‖g‖ of one long vector g."""
    net = copy.deepcopy(net)
    loss = loss_of(net, x)
    g = torch.cat([part.flatten() for part in torch.autograd.grad(loss, list(net.parameters()))])
    theta = nn.utils.parameters_to_vector(net.parameters())
    nn.utils.vector_to_parameters(theta + RADIUS * g / g.square().sum().sqrt(), net.parameters())
    return loss.detach(), list(torch.autograd.grad(loss_of(net, x), list(net.parameters())))


def test_it_is_the_gradient_at_the_end_of_a_step_of_that_length_uphill(net, x):
    loss, expected = written_out(net, x)
    found = taken(net, x)
    assert found.item() == pytest.approx(loss.item(), rel=1e-6)
    for parameter, gradient in zip(net.parameters(), expected, strict=True):
        assert torch.allclose(parameter.grad, gradient, atol=1e-6)
    plain = copy.deepcopy(net)
    plain.zero_grad()
    loss_of(plain, x).backward()
    pairs = zip(net.parameters(), plain.parameters(), strict=True)
    assert max((own.grad - its.grad).abs().max().item() for own, its in pairs) > 1e-2


def test_weights_come_back_to_the_bit_and_statistics_saw_the_batch_once(net, x):
    once = copy.deepcopy(net)
    once(x)
    taken(net, x)
    assert all(torch.equal(value, once.state_dict()[name]) for name, value in net.state_dict().items())
    assert net[1].num_batches_tracked == 1


def test_the_scale_of_the_loss_does_not_change_where_it_looks(net, x):
    scaled = copy.deepcopy(net)
    taken(net, x)

    def gradient() -> torch.Tensor:
        scaled.zero_grad(set_to_none=True)
        (1024 * loss_of(scaled, x)).backward()
        return torch.zeros(())

    sharpness_aware_gradient(gradient, [scaled], RADIUS)
    for own, its in zip(net.parameters(), scaled.parameters(), strict=True):
        assert torch.allclose(1024 * own.grad, its.grad, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("factor", [0.0, float("inf")])
def test_a_gradient_of_nothing_or_beyond_all_bounds_moves_no_weight(net, x, factor):
    before = [parameter.detach().clone() for parameter in net.parameters()]

    def gradient() -> torch.Tensor:
        net.zero_grad(set_to_none=True)
        loss_of(net, x).backward()
        for parameter in net.parameters():
            parameter.grad *= factor
        return torch.zeros(())

    sharpness_aware_gradient(gradient, [net], RADIUS)
    assert all(torch.equal(own, its) for own, its in zip(net.parameters(), before, strict=True))


def test_the_optimiser_steps_by_it_alone(net, x):
    _, expected = written_out(net, x)
    start = [parameter.detach().clone() for parameter in net.parameters()]
    step = GradientStep(
        lambda images: loss_of(net, images),
        torch.optim.SGD(net.parameters(), lr=0.1),
        torch.amp.GradScaler("cpu", enabled=False),
        augmentation_preset("none"),
        CPU,
        torch.float32,
        take_gradient=lambda gradient: sharpness_aware_gradient(gradient, [net], RADIUS),
    )
    step(x, rates=[0.1], generator=torch.Generator())
    for now, before, gradient in zip(net.parameters(), start, expected, strict=True):
        assert torch.allclose(now, before - 0.1 * gradient, atol=1e-6)


@pytest.mark.slow
def test_stage_1_can_train_by_it_and_average_over_the_valley(few_digits, quick_config, monkeypatch):
    config = replace(quick_config.features, epochs=1)
    train, held_out = holdout_split(few_digits.labels, few_digits.domains, config.held_out, 0)

    def history():
        net = build_feature_net(config, few_digits.image_size, normalisation="half", seed=0, pretrained=True)
        return train_features(config, net, few_digits, train, held_out, seed=0, device=CPU).report.history

    plain = history()

    def take_gradient(run, gradient):
        return sharpness_aware_gradient(gradient, [run.net, run.objective], 0.05)

    monkeypatch.setattr(_FeatureRun, "take_gradient", take_gradient)
    sharp = history()
    assert sharp[0]["loss"] != plain[0]["loss"]
    monkeypatch.setattr(_FeatureRun, "make_average", lambda run: ValleyAverage(run.net, patience=1))
    averaged = history()
    assert averaged[0]["loss"] == sharp[0]["loss"], "training itself goes on as it did"
    assert averaged[0]["held_out_loss"] != sharp[0]["held_out_loss"]
