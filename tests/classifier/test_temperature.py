"""The temperature is the best of a fine grid, and no temperature changes a label."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from homefold.classifier.temperature import HIGHEST, apply_temperature, fit_temperature
from homefold.errors import DataError
from homefold.runtime.seeding import generator

CLASSES = 4


def answers(n: int, sharpness: float, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits that are `sharpness` times what the labels, which are drawn from their softmax, are worth."""
    random = generator(seed, "answers")
    honest = 2 * torch.randn(n, CLASSES, generator=random)
    labels = torch.multinomial(torch.softmax(honest, dim=1), 1, generator=random)[:, 0]
    return honest * sharpness, labels


def loss_by_hand(logits: torch.Tensor, labels: torch.Tensor, temperature: float, weights: list[float]) -> float:
    """Row by row and class by class, in Python's own floats."""
    n, total = len(logits), 0.0
    for row, label, weight in zip(logits.tolist(), labels.tolist(), weights, strict=True):
        largest = max(row)
        norm = math.log(sum(math.exp((value - largest) / temperature) for value in row))
        for k, value in enumerate(row):
            target = 1 - 1 / (n + 2) if k == label else 1 / (n + 2) / (CLASSES - 1)
            total -= weight * target * ((value - largest) / temperature - norm)
    return total / sum(weights)


@pytest.mark.parametrize("sharpness", [0.2, 1.0, 5.0])
def test_it_is_the_best_of_a_fine_grid(sharpness: float) -> None:
    logits, labels = answers(60, sharpness)
    weights = [1.0 + (row % 3) for row in range(60)]
    grid = np.exp(np.linspace(math.log(0.06), math.log(HIGHEST), 1500))
    losses = [loss_by_hand(logits, labels, float(t), weights) for t in grid]
    found = fit_temperature(logits, labels, torch.tensor(weights))
    assert found == pytest.approx(grid[int(np.argmin(losses))], rel=0.005)
    assert loss_by_hand(logits, labels, found, weights) <= min(losses) + 1e-12


def test_it_finds_how_much_too_sure_the_logits_are() -> None:
    logits, labels = answers(20_000, 3.0)
    assert fit_temperature(logits, labels) == pytest.approx(3.0, rel=0.03)


def test_where_all_is_right_it_does_not_make_answers_certain() -> None:
    logits = 4.0 * torch.eye(CLASSES)[torch.arange(20) % CLASSES]
    temperature = fit_temperature(logits, torch.arange(20) % CLASSES)
    sure = float(apply_temperature(logits, temperature).max())
    assert sure == pytest.approx(1 - 1 / 22, abs=1e-4)


def test_at_one_probabilities_are_those_of_softmax_to_the_bit() -> None:
    logits, _ = answers(50, 1.0)
    assert torch.equal(apply_temperature(logits, 1.0), torch.softmax(logits, dim=1))


@pytest.mark.parametrize("temperature", [0.05, 0.9, 3.0, 20.0])
def test_no_label_changes_even_where_rounding_makes_two_classes_alike(temperature: float) -> None:
    logits, _ = answers(400, 30.0)
    close = logits.clone()
    close[:, 0] = logits.amax(dim=1)
    close[:, 3] = torch.nextafter(close[:, 0], torch.tensor(math.inf))
    for given in (logits, close):
        plain = torch.softmax(given, dim=1).argmax(dim=1)
        found = apply_temperature(given, temperature)
        assert torch.equal(found.argmax(dim=1), plain)
        reference = torch.softmax(given.double() / temperature, dim=1)
        torch.testing.assert_close(found.double(), reference, rtol=0, atol=1e-3)


def test_each_row_is_answered_by_itself() -> None:
    logits, _ = answers(33, 5.0)
    together = apply_temperature(logits, 2.5)
    alone = torch.cat([apply_temperature(row[None], 2.5) for row in logits])
    assert torch.equal(together, alone)


def test_without_rows_there_is_no_temperature() -> None:
    with pytest.raises(DataError, match="needs logits"):
        fit_temperature(torch.empty(0, 3), torch.empty(0, dtype=torch.long))
