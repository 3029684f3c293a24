"""EISNet's loss, its slow copy and its memory."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from homefold.methods import ImageSet
from homefold.methods.training.eisnet import EisNet
from homefold.methods.training.jigen import Jigen

PLAIN = {"weight": 0.0, "ordered": 1.0, "grey_tiles": 0.0}


def few(batch):
    return replace(batch, images=batch.images[::6], labels=batch.labels[::6], domains=batch.domains[::6])


def slow_triplets(q, k, memory, kinds, labels, margin):
    """The mean over all semi-hard triplets, one by one."""
    losses = [
        (q[i] - k[j]).square().sum() - (q[i] - memory[m]).square().sum() + margin
        for i in range(len(q))
        for j in range(len(q))
        for m in range(len(memory))
        if i != j and labels[i] == labels[j] and kinds[m] not in (-1, labels[i])
    ]
    semi_hard = torch.stack(losses)
    return semi_hard[(semi_hard > 0) & (semi_hard < margin)].mean()


@pytest.mark.slow
def test_the_loss_is_deep_alls_and_the_mean_of_all_semi_hard_triplets(build, batch):
    batch = few(batch)
    learner = build(EisNet(**PLAIN, triplet=0.8, margin=1.0, negatives=4096, memory=20)).eval()
    with torch.no_grad():
        learner.memory.copy_(F.normalize(torch.randn(20, 128, generator=torch.Generator().manual_seed(2)), dim=1))
        learner.kinds.copy_(torch.arange(20) % 4 - 1)
        before = learner.memory.clone(), learner.kinds.clone()
    found = learner.loss(batch)
    z = learner.net(batch.images)
    q, k = learner.embedding(z), learner.slow.eval()(batch.images)
    memory = torch.cat([k, before[0]])[:20]
    kinds = torch.cat([batch.labels, before[1]])[:20]
    assert torch.equal(learner.memory, memory)
    assert torch.equal(learner.kinds, kinds)
    pulled = slow_triplets(q, k, memory, kinds.tolist(), batch.labels.tolist(), 1.0)
    expected = F.cross_entropy(learner.classifier(z), batch.labels) + 0.8 * 0.75 * pulled
    assert found.item() == pytest.approx(expected.item(), rel=1e-5), "half of the training is over"
    parameters = [*learner.net.parameters(), *learner.embedding.parameters()]
    mine, its = (
        torch.autograd.grad(loss, parameters, retain_graph=True, allow_unused=True) for loss in (found, expected)
    )
    assert all(
        (a is None) == (b is None) and (a is None or torch.allclose(a, b, atol=1e-5))
        for a, b in zip(mine, its, strict=True)
    )


def test_the_copy_follows_slowly_and_takes_no_gradient(build, batch):
    learner = build(EisNet(follow=0.75))
    assert not any(parameter.requires_grad for parameter in learner.slow.parameters())
    start = copy.deepcopy(learner.slow.state_dict())
    with torch.no_grad():
        for parameter in learner.net.parameters():
            parameter.add_(1.0)
    learner.loss(batch).backward()
    for name, value in learner.slow.named_parameters():
        moved = 0.25 if name.startswith("0.") else 0.0
        assert torch.allclose(value, start[name] + moved, atol=1e-6)
    trained = {id(item) for group in learner.parameter_groups() for item in group.parameters}
    assert not trained & {id(item) for item in learner.slow.parameters()}
    assert all(item.grad is not None for item in learner.embedding.parameters())


def test_the_copy_sees_plain_images_grey_as_often_as_tiles(build, batch):
    learner = build(EisNet(**{**PLAIN, "grey_tiles": 0.5}, memory=len(batch))).eval()
    torch.manual_seed(3)
    grey = torch.rand(len(batch), 1) < 0.5
    assert 0 < grey.sum() < len(batch)
    colours = torch.tensor([0.299, 0.587, 0.114])[:, None, None]
    seen = torch.where(grey[:, :, None, None], (batch.images * colours).sum(dim=1, keepdim=True), batch.images)
    torch.manual_seed(3)
    learner.loss(batch)
    assert torch.allclose(learner.memory, learner.slow.eval()(seen), atol=1e-5)


def test_its_puzzles_are_jigens(build, batch):
    eisnet, jigen = build(EisNet(triplet=0.0)), build(Jigen())
    jigen.load_state_dict({name: value for name, value in eisnet.state_dict().items() if name in jigen.state_dict()})
    losses = []
    for learner in (eisnet.eval(), jigen.eval()):
        torch.manual_seed(3)
        losses.append(learner.loss(batch).item())
    assert losses[0] == losses[1]
    assert isinstance(eisnet.puzzle, nn.Linear)


@pytest.mark.slow
def test_it_learns_digits_of_a_domain_it_never_saw(task_for, unseen):
    method = EisNet(memory=256)
    answers = method.train(task_for(method, features__epochs=8)).answer(ImageSet(unseen.images, "unseen")).predictions
    assert float((answers.indices == unseen.labels).mean()) > 0.7, "a third would be chance"
