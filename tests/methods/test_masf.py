"""MASF's losses, one domain, class and pair at a time."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.methods import ImageSet
from homefold.methods.training.masf import Masf, class_relations_loss


def symmetric(p, q):
    return (F.kl_div(q.log(), p, reduction="sum") + F.kl_div(p.log(), q, reduction="sum")) / 2


def slow_relations(logits, labels, domains, left_out):
    total = 0.0
    for domain in set(range(3)) - {left_out}:
        for label in range(3):
            soft = []
            for own in (domain, left_out):
                chosen = logits[(domains == own) & (labels == label)]
                soft.append((chosen.mean(dim=0) / 2).softmax(dim=0) if len(chosen) else None)
            if soft[0] is not None and soft[1] is not None:
                total = total + symmetric(*soft) / 3 / 2
    return total


def slow_triplets(points, labels, margin):
    distances = (points[:, None] - points[None]).square().sum(dim=2)
    losses = []
    for i in range(len(points)):
        negatives = distances[i][labels != labels[i]]
        for j in range(len(points)):
            if i != j and labels[i] == labels[j]:
                beyond = negatives[negatives > distances[i, j]]
                chosen = beyond.min() if len(beyond) else negatives.max()
                losses.append((distances[i, j] - chosen + margin).clamp(min=0))
    return torch.stack(losses).mean()


def test_classes_that_a_domain_lacks_do_not_count():
    generator = torch.Generator().manual_seed(1)
    logits = 3 * torch.randn(20, 3, generator=generator)
    labels, domains = torch.randint(3, (20,), generator=generator), torch.arange(20) % 3
    kept = ~((domains == 1) & (labels == 2))
    logits, labels, domains = logits[kept], labels[kept], domains[kept]
    for left_out in range(3):
        found = class_relations_loss(logits, domains * 3 + labels, (3, 3), left_out)
        assert found.item() == pytest.approx(float(slow_relations(logits, labels, domains, left_out)), rel=1e-5)
    assert class_relations_loss(logits, labels, (1, 3), 0) == 0


def test_its_loss_is_that_after_a_clipped_step_on_the_other_domains(build, batch):
    batch = replace(batch, images=batch.images[::3], labels=batch.labels[::3], domains=batch.domains[::3])
    method = Masf(relations=0.7, triplet=0.3, inner_rate=0.2, clip=0.05, margin=1.0)
    learner = build(method).eval()
    torch.manual_seed(7)
    found = learner.loss(batch)
    torch.manual_seed(7)
    left_out = int(torch.randint(3, ()))

    def trained_on(network):
        own = [batch.domains == domain for domain in range(3) if domain != left_out]
        logits = network.logits(batch.images)
        return sum(F.cross_entropy(logits[rows], batch.labels[rows]) for rows in own) / 2

    ahead = copy.deepcopy(learner)
    parameters = [*ahead.net.parameters(), *ahead.classifier.parameters()]
    gradients = torch.autograd.grad(trained_on(ahead), parameters)
    assert any(gradient.norm() > 0.05 for gradient in gradients)
    with torch.no_grad():
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter -= 0.2 * gradient * min(1.0, 0.05 / float(gradient.norm()))
    z, logits = ahead(batch.images)
    later = 0.7 * slow_relations(logits, batch.labels, batch.domains, left_out)
    later = later + 0.3 * slow_triplets(ahead.metric(z), batch.labels, 1.0)
    assert found.item() == pytest.approx((trained_on(learner) + later).item(), rel=1e-5)
    # The step counts as given: gradients are those where it leads to, beside those of CE.
    there = torch.autograd.grad(later, [*ahead.net.parameters(), *ahead.metric.parameters()])
    here = torch.autograd.grad(trained_on(learner), list(learner.net.parameters()))
    mine = torch.autograd.grad(found, [*learner.net.parameters(), *learner.metric.parameters()])
    for own, late, early in zip(mine, there, [*here, *[0.0] * 4], strict=True):
        assert torch.allclose(own, late + early, atol=1e-5)


def test_looking_ahead_leaves_the_running_statistics_to_the_one_real_pass(build, batch):
    learner, plain = build(Masf()), build(Masf(**Masf.null))
    learner.loss(batch)
    plain.loss(batch)
    for (name, own), its in zip(learner.named_buffers(), plain.buffers(), strict=True):
        assert torch.equal(own, its), name


def test_it_compares_domains():
    assert "masf compares source domains, and there is 1 here" in Masf().without_signal(1, 70)
    assert not Masf().without_signal(2, 0)


@pytest.mark.slow
def test_it_learns_digits_of_a_domain_it_never_saw(task_for, unseen):
    method = Masf()
    answers = method.train(task_for(method, features__epochs=8)).answer(ImageSet(unseen.images, "unseen")).predictions
    assert float((answers.indices == unseen.labels).mean()) > 0.7, "a third would be chance"
