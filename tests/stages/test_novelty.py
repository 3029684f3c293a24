"""Scores of novelty against their formulas written out in numpy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from torch import nn

from homefold.runtime.seeding import generator
from homefold.stages.novelty import energy, nearest_distance, virtual_logit

DIM, CLASSES = 6, 3


def rows(n: int, seed: int) -> torch.Tensor:
    return torch.randn(n, DIM, generator=generator(seed, "rows"))


@pytest.fixture
def layer() -> nn.Linear:
    made = nn.Linear(DIM, CLASSES)
    with torch.no_grad():
        made.weight.copy_(torch.randn(CLASSES, DIM, generator=generator(0, "weight")))
        made.bias.copy_(torch.randn(CLASSES, generator=generator(0, "bias")))
    return made.requires_grad_(False)


def test_energy_is_the_log_of_a_sum() -> None:
    logits = rows(8, 0)
    by_hand = [-math.log(sum(math.exp(value) for value in row)) for row in logits.tolist()]
    assert energy(logits).tolist() == pytest.approx(by_hand, rel=1e-5)


@pytest.mark.parametrize("k", [1, 4, 99])
def test_the_distance_to_the_kth_neighbour_is_that_of_sorted_distances(k: int) -> None:
    z, known = rows(7, 1), rows(20, 2)
    found = nearest_distance(z, known, k)
    for row, distance in zip(z.double().numpy(), found.tolist(), strict=True):
        unit = row / np.linalg.norm(row)
        every = sorted(float(np.linalg.norm(unit - other / np.linalg.norm(other))) for other in known.double().numpy())
        assert distance == pytest.approx(every[min(k, 20) - 1], rel=1e-9)


def test_vim_is_the_papers_formula(layer: nn.Linear) -> None:
    z, known = rows(9, 3), rows(40, 4)
    weight, bias = layer.weight.double().numpy(), layer.bias.double().numpy()
    x, train = z.double().numpy(), known.double().numpy()
    origin = -np.linalg.pinv(weight) @ bias
    values, vectors = np.linalg.eig((train - origin).T @ (train - origin))
    outside = vectors[:, np.argsort(-values)[DIM // 2 :]]
    residual = np.linalg.norm((x - origin) @ outside, axis=1)
    of_train = np.linalg.norm((train - origin) @ outside, axis=1)
    alpha = (train @ weight.T + bias).max(axis=1).mean() / of_train.mean()
    expected = alpha * residual - np.log(np.exp(x @ weight.T + bias).sum(axis=1))
    assert virtual_logit(z, known, layer).tolist() == pytest.approx(expected.tolist(), rel=1e-6)


def test_what_lies_outside_the_known_directions_is_more_unusual(layer: nn.Linear) -> None:
    known = rows(50, 5)
    known[:, 3:] *= 0.01
    inside, outside = known[:10].clone(), known[:10].clone()
    outside[:, 3:] += 1.0
    assert bool((virtual_logit(outside, known, layer) > virtual_logit(inside, known, layer)).all())
    assert bool((nearest_distance(outside, known, 2) > nearest_distance(inside, known, 2)).all())
