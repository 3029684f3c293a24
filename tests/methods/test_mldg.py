"""MLDG against a step of SGD on a copy of the network."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest
import torch
from torch.nn import functional as F

from homefold.methods.training.mldg import Mldg, meta_split


def test_the_gradient_is_that_of_both_losses_each_where_it_is_taken(build, batch):
    learner = build(Mldg(weight=0.7, inner_rate=0.5)).eval()
    torch.manual_seed(4)
    tried = batch.domains == torch.randint(3, ())
    copied = copy.deepcopy(learner)
    others = F.cross_entropy(copied.logits(batch.images[~tried]), batch.labels[~tried])
    others.backward()
    first = [parameter.grad.clone() for parameter in copied.parameters()]
    torch.optim.SGD(copied.parameters(), lr=0.5).step()
    copied.zero_grad()
    own = F.cross_entropy(copied.logits(batch.images[tried]), batch.labels[tried])
    own.backward()

    torch.manual_seed(4)
    loss = learner.loss(batch)
    assert loss.item() == pytest.approx((others + 0.7 * own).item(), rel=1e-5)
    assert abs(own.item() - F.cross_entropy(learner.logits(batch.images[tried]), batch.labels[tried]).item()) > 1e-2
    loss.backward()
    for found, one, two in zip(learner.parameters(), first, copied.parameters(), strict=True):
        assert torch.allclose(found.grad, one + 0.7 * two.grad, atol=1e-5)


@pytest.mark.slow
def test_every_domain_is_tried(build, batch):
    learner = build(Mldg()).eval()
    found = set()
    for seed in range(20):
        torch.manual_seed(seed)
        found.add(round(learner.loss(batch).item(), 5))
    assert len(found) == 3


def test_of_an_uneven_batch_no_image_counts_for_the_wrong_loss(build, batch):
    learner = build(Mldg(inner_rate=0.5)).eval()
    # Of one domain there is but one image, of the others there are more than a third.
    rows = torch.cat([torch.nonzero(batch.domains == 0)[:1, 0], torch.nonzero(batch.domains > 0).flatten()])
    fewer = replace(batch, images=batch.images[rows], labels=batch.labels[rows], domains=batch.domains[rows])
    for seed in range(6):
        torch.manual_seed(seed)
        tried = fewer.domains == torch.randint(3, ())
        # First come those that are tried; a third of the batch is passed through the moved network.
        order = [*torch.nonzero(tried).flatten().tolist(), *torch.nonzero(~tried).flatten().tolist()]
        first = [row for row in order[len(fewer) // 3 :] if not tried[row]]
        second = [row for row in order[: len(fewer) // 3] if tried[row]]
        copied = copy.deepcopy(learner)
        others = F.cross_entropy(copied.logits(fewer.images[first]), fewer.labels[first])
        others.backward()
        torch.optim.SGD(copied.parameters(), lr=0.5).step()
        own = F.cross_entropy(copied.logits(fewer.images[second]), fewer.labels[second])
        torch.manual_seed(seed)
        assert learner.loss(fewer).item() == pytest.approx((others + own).item(), rel=1e-4)


def test_a_domain_that_the_batch_lacks_is_learned_nothing_from(build, batch):
    learner = build(Mldg()).eval()
    rows = batch.domains == 1
    alone = replace(batch, images=batch.images[rows], labels=batch.labels[rows], domains=batch.domains[rows])
    for seed in range(6):
        torch.manual_seed(seed)
        assert torch.isfinite(learner.loss(alone))


def test_the_split_keeps_every_row_once():
    tried = torch.tensor([True, False, False, True, True, False])
    others, own = meta_split(tried, 2)
    assert own.tolist() == [0, 3]
    assert sorted([*others.tolist(), *own.tolist()]) == list(range(6))
