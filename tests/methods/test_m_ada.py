"""M-ADA's fictitious domains and its look ahead, against slow references."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from homefold.features.batches import to_pixels
from homefold.methods import ImageSet, TrainingImages
from homefold.methods.training.learner import Learner
from homefold.methods.training.m_ada import MAda, trained_encoder

QUICK = {"ascent": 3, "encoder_epochs": 1, "images": 40}


@pytest.fixture
def images(training_images) -> TrainingImages:
    return training_images()


def test_an_image_rises_along_the_gradient_of_its_objective(build, batch, images):
    method = MAda(ascent=2, push=3.0, relaxation=50.0, constraint=0.7)
    learner, encoder = build(method).eval(), trained_encoder(images.batch, torch.arange(64), 1)
    start, labels = batch.images[:4], batch.labels[:4]
    found = learner.push(start, labels, encoder)
    for i in range(4):
        x0, x = start[i : i + 1], start[i : i + 1]
        for _ in range(2):
            x = x.detach().requires_grad_()
            objective = F.cross_entropy(learner.logits(x), labels[i : i + 1])
            objective = objective + 50 * F.mse_loss(encoder(x), encoder(x0))
            objective = objective - 0.7 * F.mse_loss(learner.features(x), learner.features(x0))
            x = x + 3 / 32 * torch.autograd.grad(objective, x)[0]
        assert torch.allclose(found[i], x[0].clamp(0, 1), atol=1e-5)
        assert not torch.allclose(found[i], start[i], atol=1e-3)


def test_domains_are_made_one_an_epoch_and_of_those_before(build, images):
    learner = build(MAda(**QUICK))
    assert learner.sizes == [40, 20, 13]
    before = copy.deepcopy(learner.net.state_dict())
    found = []
    for epoch in range(5):
        learner.epoch_start(epoch, images)
        found.append((learner.made, int((learner.pushed.flatten(1).float().sum(dim=1) > 0).sum())))
    assert found == [(0, 0), (1, 40), (2, 60), (3, 73), (3, 73)]
    assert learner.training
    assert all(torch.equal(value, before[name]) for name, value in learner.net.state_dict().items())


def test_fictitious_images_keep_their_labels_and_leave_their_places(build, images, source):
    learner = build(MAda(**{**QUICK, "domains": 1}))
    learner.epoch_start(1, images)
    pushed, pixels = to_pixels(learner.pushed), images.batch(torch.arange(len(source)))
    nearest = torch.cdist(pushed.flatten(1), pixels.flatten(1)).min(dim=1)
    assert torch.equal(learner.labels, torch.from_numpy(source.labels)[nearest.indices])
    assert len(nearest.indices.unique()) > 35, "of different images"
    assert 0.05 < float(nearest.values.mean()) < 0.3 * float(pixels.flatten(1).norm(dim=1).mean())


@pytest.mark.slow
def test_the_loss_is_the_mean_of_the_sources_and_of_that_after_a_step(build, batch, images):
    learner = build(MAda(**QUICK, inner_rate=0.1)).eval()
    assert learner.loss(batch).item() == Learner.loss(learner, batch).item(), "before there is any"
    learner.epoch_start(1, images)
    torch.manual_seed(5)
    found = learner.loss(batch)
    torch.manual_seed(5)
    rows = torch.randint(40, (len(batch),))

    def later(parameters):
        ahead = copy.deepcopy(learner)
        for parameter, value in zip(ahead.parameters(), parameters, strict=True):
            parameter.data = value.detach().clone()
        return F.cross_entropy(ahead.logits(to_pixels(ahead.pushed[rows])), ahead.labels[rows])

    own = Learner.loss(learner, batch)
    parameters = list(learner.parameters())
    moved = [p - 0.1 * g for p, g in zip(parameters, torch.autograd.grad(own, parameters), strict=True)]
    assert found.item() == pytest.approx((own.item() + later(moved).item()) / 2, rel=1e-5)
    # Second order: the slope along one weight is that of the whole, found by differences.
    weight, h = learner.classifier.bias, 1e-2
    slope = torch.autograd.grad(found, weight)[0][0].item()
    values = []
    for step in (h, -h):
        with torch.no_grad():
            weight[0] += step
            torch.manual_seed(5)
        values.append(learner.loss(batch).item())
        with torch.no_grad():
            weight[0] -= step
    assert slope == pytest.approx((values[0] - values[1]) / (2 * h), rel=0.02, abs=1e-4)


@pytest.mark.slow
def test_an_auto_encoder_learns_its_images(images):
    rows = torch.arange(96)
    pixels = images.batch(rows).flatten(1)
    errors = []
    for epochs in (1, 30):
        torch.manual_seed(0)
        encoder = trained_encoder(images.batch, rows, epochs)
        errors.append(F.mse_loss(encoder(images.batch(rows)), pixels).item())
    assert errors[1] < 0.7 * errors[0]
    assert errors[1] < float(pixels.var(dim=0).mean())
    assert not any(parameter.requires_grad for parameter in encoder.parameters())
    codes = encoder.encode(encoder.flat(images.batch(rows)))
    assert 0.2 < float(codes.std()) < 3


def test_large_images_take_no_more_than_64_mb(build):
    learner = build(MAda(), side=16)
    assert learner.pushed.numel() < 1 << 26
    assert build(MAda(domains=0)).pushed.numel() == 0


@pytest.mark.slow
def test_it_learns_with_fictitious_domains_and_adapts_to_a_few_images(task_for, few_digits, unseen):
    method = MAda(**QUICK)
    few = unseen.subset(range(0, 72, 6))
    trained = method.train(task_for(method, adapt=few, features__epochs=6, features__batch_size=16))
    before, after = trained.stages
    assert int((before.state["learner"]["pushed"].flatten(1).float().sum(dim=1) > 0).sum()) == 73
    answers = trained.answer(ImageSet(unseen.images, "unseen")).predictions.indices
    assert np.mean(answers == unseen.labels) > 0.7, "a third would be chance"
    assert not torch.equal(before.state["learner"]["classifier.weight"], after.state["learner"]["classifier.weight"])
