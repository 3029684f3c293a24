"""Triplet losses against loops over all triplets."""

from __future__ import annotations

import pytest
import torch

from homefold.methods.training.triplets import all_semi_hard_loss, next_semi_hard_loss, squared_distances

LABELS = torch.tensor([0, 1, 0, 2, 1, 0, 2, 0])


@pytest.fixture
def points() -> torch.Tensor:
    return torch.randn(8, 3, generator=torch.Generator().manual_seed(4), requires_grad=True)


def test_distances_are_those_of_pytorch(points):
    other = torch.randn(5, 3, generator=torch.Generator().manual_seed(5))
    expected = torch.cdist(points, other).square()
    assert torch.allclose(squared_distances(points, other), expected, atol=1e-5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.allclose(squared_distances(points, other), expected, atol=1e-5), "differences need all digits"


@pytest.mark.parametrize(("margin", "most"), [(2.0, 100), (2.0, 3), (0.5, 2)])
def test_all_semi_hard_negatives_as_in_a_loop(points, margin, most):
    keys = torch.randn(30, 3, generator=torch.Generator().manual_seed(6))
    kinds = torch.arange(30) % 4 - 1  # of -1 there is nothing yet
    positive, negative = squared_distances(points, points.detach()), squared_distances(points, keys)
    pairs = (LABELS[:, None] == LABELS) & ~torch.eye(8, dtype=torch.bool)
    allowed = (LABELS[:, None] != kinds) & (kinds >= 0)
    total, weights = 0.0, 0
    for i, j in pairs.nonzero().tolist():
        losses = torch.stack([positive[i, j] - negative[i, q] + margin for q in range(30) if allowed[i, q]])
        semi_hard = losses[(losses > 0) & (losses < margin)]
        if len(semi_hard):
            total = total + min(most, len(semi_hard)) * semi_hard.mean()
            weights += min(most, len(semi_hard))
    found = all_semi_hard_loss(positive, pairs, negative, allowed, margin, most)
    assert weights > 2
    assert found.item() == pytest.approx((total / weights).item(), rel=1e-5)
    mine, its = (torch.autograd.grad(loss, points, retain_graph=True)[0] for loss in (found, total / weights))
    assert torch.allclose(mine, its, atol=1e-5)


def test_without_a_triplet_the_loss_is_zero_and_has_a_gradient(points):
    distances = squared_distances(points, points)
    none = torch.zeros(8, 8, dtype=torch.bool)
    for loss in (
        all_semi_hard_loss(distances, none, distances, none, 1.0, 5),
        next_semi_hard_loss(distances, torch.zeros(8, dtype=torch.long), 1.0),
    ):
        assert loss.item() == 0
        assert torch.autograd.grad(loss, points, retain_graph=True)[0].abs().sum() == 0


@pytest.mark.parametrize("margin", [0.2, 1.0, 10.0])
def test_the_next_harder_negative_as_in_a_loop(points, margin):
    distances = squared_distances(points, points)
    losses = []
    for i in range(8):
        negatives = [distances[i, k] for k in range(8) if LABELS[k] != LABELS[i]]
        for j in range(8):
            if j != i and LABELS[j] == LABELS[i]:
                beyond = [n for n in negatives if n > distances[i, j]]
                losses.append((distances[i, j] - (min(beyond) if beyond else max(negatives)) + margin).clamp(min=0))
    expected, found = torch.stack(losses).mean(), next_semi_hard_loss(distances, LABELS, margin)
    assert found.item() == pytest.approx(expected.item(), rel=1e-5)
    mine, its = (torch.autograd.grad(loss, points, retain_graph=True)[0] for loss in (found, expected))
    assert torch.allclose(mine, its, atol=1e-5)
