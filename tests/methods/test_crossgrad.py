"""CrossGrad's moved images and its loss, by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.methods.training.crossgrad import CrossGrad, perturbed


def test_images_move_along_the_gradient_of_the_mean_loss():
    images = torch.tensor([1.0, 2.0, -3.0, 0.01]).view(4, 1, 1, 1).requires_grad_()
    loss = images.square().mean()  # its gradients are 0.5, 1, −1.5 and 0.005
    moved = perturbed(images, loss, 2.0, 1.2, torch.tensor(1.0))
    assert moved.flatten().tolist() == pytest.approx([2.0, 4.0, -5.4, 0.02])
    assert not moved.requires_grad


def test_they_move_as_normalised_images_do():
    images = torch.tensor([0.2, 0.6, 0.9]).view(3, 1, 1, 1).requires_grad_()
    seen = ((images - 0.3) / 0.25).detach().requires_grad_()
    (gradient,) = torch.autograd.grad(seen.square().sum(), seen)
    expected = seen.detach() + 0.5 * gradient.clamp(-3.0, 3.0)
    moved = perturbed(images, ((images - 0.3) / 0.25).square().sum(), 0.5, 3.0, torch.tensor(0.25))
    assert torch.allclose((moved - 0.3) / 0.25, expected, atol=1e-5)


def test_the_loss_crosses_the_gradients(build, batch):
    settings = CrossGrad(label_share=0.25, domain_share=0.75, label_step=200.0, domain_step=300.0, clip=10.0)
    learner = build(settings).eval()
    images = batch.images.clone().requires_grad_()
    label = F.cross_entropy(learner.logits(images), batch.labels)
    domain = F.cross_entropy(learner.domain_logits(images), batch.domains)
    to_label, to_domain = (torch.autograd.grad(loss, images, retain_graph=True)[0] for loss in (label, domain))
    # The network sees (x - 0.5) / 0.5: there the gradient is half as large, and so is what a move is worth.
    moved_label = F.cross_entropy(learner.logits(batch.images + 0.25 * 200.0 * to_domain), batch.labels)
    moved_domain = F.cross_entropy(learner.domain_logits(batch.images + 0.25 * 300.0 * to_label), batch.domains)
    expected = 0.75 * label + 0.25 * moved_label + 0.25 * domain + 0.75 * moved_domain
    assert learner.loss(batch).item() == pytest.approx(expected.item(), rel=1e-5)
    assert abs((moved_label - label).item()) > 1e-3


def test_moving_along_the_domain_gradient_makes_the_domain_less_certain(build, batch):
    learner = build(CrossGrad()).eval()
    images = batch.images.clone().requires_grad_()
    loss = F.cross_entropy(learner.domain_logits(images), batch.domains)
    moved = perturbed(images, loss, 1.0, 0.1, learner.net.std)
    after = F.cross_entropy(learner.domain_logits(moved), batch.domains)
    assert after.item() > loss.item()
    assert 0 < float((moved - batch.images).abs().max()) <= 0.05 + 1e-6
    assert float((moved - batch.images).abs().mean()) < 1e-3, "the gradient of a mean over many images is small"


def test_the_label_net_does_not_learn_from_the_domain_loss(build, batch):
    learner = build(CrossGrad(label_step=0.0)).eval()
    learner.loss(batch).backward()
    one_way = [parameter.grad.clone() for parameter in learner.net.parameters()]
    learner.zero_grad()
    learner.loss(replace(batch, domains=(batch.domains + 1) % 3)).backward()
    for before, parameter in zip(one_way, learner.net.parameters(), strict=True):
        assert torch.allclose(before, parameter.grad, atol=1e-7)
