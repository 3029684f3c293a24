"""L2A-OT: its plan of transport, and which of its networks learns what."""

from __future__ import annotations

from itertools import combinations

import pytest
import torch
from torch.nn import functional as F

from homefold.methods import ImageSet
from homefold.methods.training.l2a_ot import DomainGenerator, L2aOt, transport_cost

SMALL = {"width": 4, "blocks": 1}


def slow_cost(costs, smoothing):
    """In float64, by rounds in logarithms until nothing changes, with equal weights."""
    n, m = costs.shape
    costs = costs.detach().double()
    f, g = torch.zeros(n, dtype=torch.float64), torch.zeros(m, dtype=torch.float64)
    for _ in range(2000):
        f = -smoothing * torch.logsumexp((g - costs) / smoothing - torch.tensor(float(m)).log(), dim=1)
        g = -smoothing * torch.logsumexp((f[:, None] - costs) / smoothing - torch.tensor(float(n)).log(), dim=0)
    plan = ((f[:, None] + g - costs) / smoothing).exp() / (n * m)
    assert torch.allclose(plan.sum(dim=1), torch.full((n,), 1 / n, dtype=torch.float64), atol=1e-6)
    return float((plan * costs).sum())


@pytest.mark.parametrize("smoothing", [1.0, 0.3])
def test_the_cost_is_that_of_the_regularised_plan_between_the_chosen(smoothing):
    costs = 2 * torch.rand(9, 8, generator=torch.Generator().manual_seed(0))
    left, right = torch.zeros(9), torch.zeros(8)
    left[[1, 2, 5]], right[[0, 3, 4, 7]] = 1 / 3, 1 / 4
    chosen = costs[[1, 2, 5]][:, [0, 3, 4, 7]]
    found = transport_cost(costs, left, right, smoothing)
    assert found.item() == pytest.approx(slow_cost(chosen, smoothing), rel=1e-4)
    assert found < chosen.mean(), "better than to spread evenly"
    assert transport_cost(costs, torch.zeros(9), torch.zeros(8), smoothing) == 0, "a domain that a batch lacks"


def gradients(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()), retain_graph=True, allow_unused=True)


def same(found, expected):
    return all(torch.allclose(*pair, atol=1e-5) for pair in zip(found, expected, strict=True))


@pytest.mark.slow
def test_each_network_learns_its_own_part(build, batch):
    method = L2aOt(share=0.25, distance=0.8, cycle=3.0, warm_up=0, **SMALL)
    learner = build(method).eval()
    with torch.no_grad():
        for parameter in learner.judge.parameters():
            parameter.mul_(1.1)
    torch.manual_seed(2)
    found = learner.loss(batch)
    torch.manual_seed(2)
    novel = torch.randperm(3)
    moved = learner.generator(batch.images, 3 + novel[batch.domains])
    own = F.cross_entropy(learner.logits(batch.images), batch.labels)
    kept = F.cross_entropy(learner.logits(moved.detach()), batch.labels)
    here, there = (F.normalize(learner.domain_net[0](images), dim=1) for images in (batch.images, moved))
    rows = [(batch.domains == domain).nonzero().flatten() for domain in range(3)]

    def cost(left, right):
        costs = 1 - left @ right.T
        return transport_cost(costs, *(torch.full((len(part),), 1 / len(part)) for part in (left, right)), 1.0)

    far = sum(cost(here[own_rows].detach(), there[own_rows]) for own_rows in rows) / 3
    far = far + sum(cost(there[a], there[b]) for a, b in combinations(rows, 2)) / 3
    told = F.cross_entropy(learner.judge(moved), batch.labels)
    back = F.l1_loss(learner.generator(moved, batch.domains), batch.images)
    made = told + 3 * back - 0.8 * far
    assert found.item() == pytest.approx((0.75 * own + 0.25 * kept + made).item(), rel=1e-4)
    assert same(gradients(found, learner.net), gradients(0.75 * own + 0.25 * kept, learner.net))
    assert same(gradients(found, learner.generator), gradients(made, learner.generator))
    assert all(item is None for item in gradients(found, learner.domain_net))


def test_at_first_the_domain_classifier_learns_and_then_the_judge_is_the_classifier(build, batch):
    learner = build(L2aOt(warm_up=2, **SMALL))
    learner.epoch_start(1, None)
    plain = F.cross_entropy(learner.eval().logits(batch.images), batch.labels)
    told = F.cross_entropy(learner.domain_net(batch.images), batch.domains)
    found = learner.loss(batch)
    assert found.item() == pytest.approx((plain + told).item(), rel=1e-5)
    assert all(item is None for item in gradients(found, learner.generator))
    assert same(gradients(found, learner.domain_net), gradients(told, learner.domain_net))
    with torch.no_grad():
        learner.classifier.bias += 1
    learner.epoch_start(2, None)
    assert not learner.warming_up
    assert torch.allclose(learner.judge(batch.images), learner.logits(batch.images))
    learner.classifier.bias.data += 1
    learner.epoch_start(3, None)
    assert not torch.allclose(learner.judge(batch.images), learner.logits(batch.images)), "it is held from then on"


@pytest.mark.parametrize("side", [(16, 16), (30, 33)])
def test_images_keep_their_size_and_their_range(side):
    generator = DomainGenerator(4, **SMALL)
    images = torch.rand(2, 3, *side)
    made = generator(images, torch.tensor([0, 3]))
    assert made.shape == images.shape
    assert 0 < made.min() < made.max() < 1
    assert not torch.allclose(made, generator(images, torch.tensor([1, 2]))), "it follows the domain"


def test_running_statistics_of_what_is_held_stay(build, batch):
    learner = build(L2aOt(warm_up=0, **SMALL))
    before = {name: value.clone() for name, value in learner.named_buffers() if not name.startswith("net.")}
    learner.loss(batch).backward()
    assert before
    assert all(torch.equal(value, before[name]) for name, value in learner.named_buffers() if name in before)


def test_it_compares_domains():
    assert "l2a-ot compares source domains, and there is 1 here" in L2aOt().without_signal(1, 70)


@pytest.mark.slow
def test_it_learns_digits_of_a_domain_it_never_saw(task_for, unseen):
    method = L2aOt(warm_up=2, **SMALL)
    task = task_for(method, features__epochs=8)
    answers = method.train(task).answer(ImageSet(unseen.images, "unseen")).predictions
    assert float((answers.indices == unseen.labels).mean()) > 0.7, "a third would be chance"
