"""Jigen's permutations, its puzzles and its loss, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from homefold.errors import ConfigError
from homefold.methods.training.jigen import Jigen, distant_permutations, grey_tiles, shuffle_tiles


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


def test_a_grey_tile_has_no_colour_and_the_others_keep_theirs():
    images = torch.rand(2, 3, 11, 10, generator=torch.Generator().manual_seed(0))
    which = torch.zeros(2, 9, dtype=torch.bool)
    which[1, 4] = True
    found = grey_tiles(images, which)
    middle = torch.zeros(11, 10, dtype=torch.bool)
    middle[4:7, 3:6] = True  # a rim of one pixel above and two below, none left and one right
    assert torch.equal(found[0], images[0])
    assert torch.equal(found[1][:, ~middle], images[1][:, ~middle])
    grey = (images[1] * torch.tensor([0.299, 0.587, 0.114]).view(3, 1, 1)).sum(dim=0)
    assert torch.allclose(found[1][:, middle], grey[middle].expand(3, -1))


def test_all_images_teach_the_label_and_the_puzzle(build, batch, monkeypatch):
    learner = build(Jigen(weight=0.5, ordered=0.6, permutations=5, grey_tiles=0.0)).eval()
    n = len(batch)
    drawn = torch.arange(n) % 6
    monkeypatch.setattr(torch, "rand", lambda *args, **kwargs: torch.linspace(0, 1, n))
    monkeypatch.setattr(torch, "randint", lambda *args, **kwargs: drawn)
    keep = torch.linspace(0, 1, n) < 0.6
    which = torch.where(keep, 0, drawn)
    z = learner.features(shuffle_tiles(batch.images, learner.orders[which]))
    label = F.cross_entropy(learner.classifier(z), batch.labels)
    puzzle = F.cross_entropy(learner.puzzle(z), which)
    assert learner.loss(batch).item() == pytest.approx((label + 0.5 * puzzle).item(), rel=1e-5)


def test_a_tenth_of_the_tiles_is_grey(build, batch, monkeypatch):
    learner, seen = build(Jigen()), []
    monkeypatch.setattr(learner, "features", lambda images: seen.append(images) or learner.net(images))
    coloured = replace(batch, images=torch.rand(len(batch), 3, 18, 18, generator=torch.Generator().manual_seed(0)))
    torch.manual_seed(0)
    for _ in range(5):
        learner.loss(coloured)
    tiles = torch.cat(seen).unfold(2, 6, 6).unfold(3, 6, 6)
    grey = (tiles[:, 0] == tiles[:, 1]).flatten(3).all(dim=3)
    assert float(grey.float().mean()) == pytest.approx(0.1, abs=0.02)


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
    # What is drawn for the others may be the order itself.
    assert float((which == 0).float().mean()) == pytest.approx(0.6 + 0.4 / 31, abs=0.06)
    assert set(which.tolist()) == set(range(31))
