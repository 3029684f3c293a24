"""Fishr against the gradients of one image after the other."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.methods.training.fishr import Fishr, gradient_variances, spread_of_variances


def variances_one_by_one(learner, batch, domain):
    """`(classes, d + 1)` the variance of the gradients of a domain's images, each from a backward pass of its own."""
    z = learner.features(batch.images)
    gradients = []
    for row in torch.nonzero(batch.domains == domain).flatten():
        loss = F.cross_entropy(learner.classifier(z[row][None]), batch.labels[row][None])
        parts = torch.autograd.grad(
            loss, [learner.classifier.weight, learner.classifier.bias], retain_graph=True, create_graph=True
        )
        gradients.append(torch.cat([parts[0], parts[1][:, None]], dim=1))
    return torch.stack(gradients).var(dim=0, correction=0)


def test_the_variances_are_those_of_the_images_gradients(build, batch):
    learner = build(Fishr()).eval()
    z = learner.features(batch.images)
    found, there = gradient_variances(z, learner.classify(z), batch.labels, batch.domains, 3)
    expected = torch.stack([variances_one_by_one(learner, batch, domain) for domain in range(3)])
    assert torch.allclose(found, expected, atol=1e-6, rtol=1e-3)
    assert found.abs().max() > 1e-2
    assert there.tolist() == [True] * 3


def test_the_spread_is_the_squared_distance_to_the_mean_of_those_that_are_there():
    variances = torch.tensor([[[1.0, 0.0]], [[3.0, 0.0]], [[100.0, 7.0]]])
    # 2 and 0 in the middle: (1 + 0) / 2 for both.
    assert spread_of_variances(variances, torch.tensor([True, True, False])).item() == pytest.approx(0.5)
    assert spread_of_variances(variances, torch.tensor([False] * 3)).item() == 0


def test_the_loss_adds_the_spread_of_the_moving_averages_after_the_warm_up(build, batch):
    learner = build(Fishr(weight=7.0, warm_up=0.5, memory=0.9)).eval()
    plain = F.cross_entropy(learner.logits(batch.images), batch.labels)
    now = torch.stack([variances_one_by_one(learner, batch, domain) for domain in range(3)]).detach()
    average = torch.zeros_like(now)
    for step in (4, 5, 6):
        average = 0.9 * average + 0.1 * now
        smooth = average / 0.1
        penalty = (smooth - smooth.mean(dim=0)).square().mean()
        found = learner.loss(replace(batch, step=step))
        expected = plain + (7 * penalty if step >= 5 else 0)
        assert found.item() == pytest.approx(expected.item(), rel=1e-4)
        assert torch.allclose(learner.before, average, rtol=1e-3, atol=1e-6)


def test_only_the_present_images_give_a_gradient(build, batch):
    learner = build(Fishr(weight=1.0, warm_up=0.0, memory=0.9)).eval()
    learner.loss(batch)
    before = learner.before / 0.1 * 0.9
    smooth = torch.stack([variances_one_by_one(learner, batch, domain) for domain in range(3)]) + before
    expected = F.cross_entropy(learner.logits(batch.images), batch.labels)
    expected = expected + (smooth - smooth.mean(dim=0)).square().mean()
    parameters = list(learner.net.parameters())
    mine, its = (torch.autograd.grad(loss, parameters) for loss in (learner.loss(batch), expected))
    assert all(torch.allclose(*pair, atol=1e-5, rtol=1e-3) for pair in zip(mine, its, strict=True))


def test_a_domain_of_one_image_counts_for_nothing_and_keeps_its_average(build, batch):
    learner = build(Fishr(weight=7.0, warm_up=0.0)).eval()
    learner.before.copy_(torch.rand(learner.before.shape, generator=torch.Generator().manual_seed(1)))
    rows = (batch.domains != 2) | (torch.arange(len(batch)) == int(torch.nonzero(batch.domains == 2)[0]))
    fewer = replace(batch, images=batch.images[rows], labels=batch.labels[rows], domains=batch.domains[rows])
    kept, ratio = learner.before[2].clone(), 0.95 / 0.05
    smooth = torch.stack([variances_one_by_one(learner, fewer, domain) for domain in range(2)])
    smooth = smooth + ratio * learner.before[:2]
    plain = F.cross_entropy(learner.logits(fewer.images), fewer.labels)
    expected = plain + 7 * (smooth - smooth.mean(dim=0)).square().mean()
    assert learner.loss(fewer).item() == pytest.approx(expected.item(), rel=1e-4)
    assert torch.equal(learner.before[2], kept)
