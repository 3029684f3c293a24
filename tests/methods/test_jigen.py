"""Jigen's permutations, its puzzles and its loss, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.methods.training.jigen import Jigen, distant_permutations, shuffle_tiles


def test_the_permutations_are_far_from_each_other():
    orders = distant_permutations(31)
    assert orders.shape == (31, 9)
    assert orders[0].tolist() == list(range(9))
    assert (np.sort(orders, axis=1) == np.arange(9)).all()
    distances = (orders[:, None] != orders[None]).sum(axis=2)
    others = distances[~np.eye(31, dtype=bool)]
    assert others.min() >= 7
    assert (distances[:9, :9][~np.eye(9, dtype=bool)] == 9).all(), "nine can differ everywhere"
    assert others.mean() > 8, "random ones differ in 8 places"


def test_there_are_only_so_many_orders():
    with pytest.raises(ConfigError, match="nine tiles have 362880 orders"):
        distant_permutations(362882)


def test_tiles_go_where_the_permutation_says():
    image = torch.arange(9.0).view(1, 1, 3, 3).repeat_interleave(2, 2).repeat_interleave(2, 3)
    order = torch.tensor([[8, 1, 2, 3, 0, 5, 6, 7, 4]])
    shuffled = shuffle_tiles(image, order)
    assert shuffled[0, 0, ::2, ::2].tolist() == [[8, 1, 2], [3, 0, 5], [6, 7, 4]]
    assert shuffled[0, 0, 1::2, 1::2].tolist() == [[8, 1, 2], [3, 0, 5], [6, 7, 4]]


def test_what_three_does_not_divide_stays_as_a_rim():
    images = torch.rand(4, 3, 32, 32, generator=torch.Generator().manual_seed(0))
    orders = torch.from_numpy(distant_permutations(4))
    shuffled = shuffle_tiles(images, orders)
    assert torch.equal(shuffled[0], images[0]), "the identity changes nothing"
    rim = torch.ones(32, 32, dtype=torch.bool)
    rim[1:31, 1:31] = False
    assert torch.equal(shuffled[..., rim], images[..., rim])
    for k, tile in enumerate(orders[1].tolist()):
        there, here = (slice(1 + 10 * (i // 3), 11 + 10 * (i // 3)) for i in (k, tile))
        across, along = (slice(1 + 10 * (i % 3), 11 + 10 * (i % 3)) for i in (k, tile))
        assert torch.equal(shuffled[1, :, there, across], images[1, :, here, along])


def test_ordered_images_teach_the_label_and_all_of_them_the_puzzle(build, batch, monkeypatch):
    learner = build(Jigen(weight=0.5, ordered=0.6, permutations=5)).eval()
    n = len(batch)
    drawn = torch.arange(n) % 5 + 1
    monkeypatch.setattr(torch, "rand", lambda *args, **kwargs: torch.linspace(0, 1, n))
    monkeypatch.setattr(torch, "randint", lambda *args, **kwargs: drawn)
    keep = torch.linspace(0, 1, n) < 0.6
    which = torch.where(keep, 0, drawn)
    z = learner.features(shuffle_tiles(batch.images, learner.orders[which]))
    label = F.cross_entropy(learner.classifier(z)[keep], batch.labels[keep])
    puzzle = F.cross_entropy(learner.puzzle(z), which)
    assert learner.loss(batch).item() == pytest.approx((label + 0.5 * puzzle).item(), rel=1e-5)


def test_the_share_of_ordered_images_is_kept(build, batch, monkeypatch):
    learner, seen = build(Jigen(ordered=0.6)), []

    def cross_entropy(logits, target, **settings):
        if logits.shape[1] == 31:
            seen.append(target.clone())
        return original(logits, target, **settings)

    original = F.cross_entropy
    monkeypatch.setattr(F, "cross_entropy", cross_entropy)
    torch.manual_seed(0)
    for _ in range(10):
        learner.loss(batch)
    which = torch.cat(seen)
    assert float((which == 0).float().mean()) == pytest.approx(0.6, abs=0.06)
    assert set(which.tolist()) == set(range(31))
