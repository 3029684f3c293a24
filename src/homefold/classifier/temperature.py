"""One number that makes confidence believable: the temperature T of softmax(logits / T)."""

from __future__ import annotations

import math

import torch

from homefold.errors import DataError

__all__ = ["HIGHEST", "LOWEST", "apply_temperature", "fit_temperature"]

LOWEST, HIGHEST = 0.05, 20.0
"""Between which a temperature is looked for."""
_HALVINGS = 60


def fit_temperature(logits: torch.Tensor, labels: torch.Tensor, weights: torch.Tensor | None = None) -> float:
    """The T at which softmax(logits / T) explains the labels best (Guo et al., 2017).

    The target of each row is softened as Platt (1999) does, to 1 − 1/(n + 2) for the true class: where all answers are
    right, the best T would otherwise be zero, and every later answer certain.

    Args:
        logits: `(n, classes)`.
        labels: `(n,)` the true classes.
        weights: `(n,)` how much each row counts; all the same by default.
    """
    if len(logits) < 1 or labels.shape != (len(logits),):
        raise DataError(f"a temperature needs logits (n, classes) with one label each; got {tuple(logits.shape)}.")
    n, classes = logits.shape
    logits, spared = logits.double(), 1 / (n + 2)
    targets = torch.full_like(logits, spared / max(1, classes - 1))
    targets.scatter_(1, labels.long().to(logits.device)[:, None], 1 - spared)
    logits = logits - logits.amax(dim=1, keepdim=True)
    weights = torch.ones(n, dtype=torch.float64) if weights is None else weights.double()
    weights = (weights / weights.sum()).to(logits.device)
    low, high = math.log(1 / HIGHEST), math.log(1 / LOWEST)
    # The loss is convex in 1/T, so that its slope is below zero up to the best 1/T and above zero from there on.
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        probabilities = torch.softmax(logits * math.exp(middle), dim=1)
        slope = ((probabilities - targets) * logits).sum(dim=1)
        if float((weights * slope).sum()) < 0:
            low = middle
        else:
            high = middle
    return math.exp(-(low + high) / 2)


def apply_temperature(logits: torch.Tensor, temperature: float) -> torch.Tensor:
    """Probabilities `(n, classes)` of logits; the most probable class is the same at every temperature."""
    plain = torch.softmax(logits, dim=1)
    if temperature == 1.0:
        return plain
    scaled = torch.softmax(logits / temperature, dim=1)
    # Rounding may make two classes alike, of which the first would be taken.
    label, value = plain.argmax(dim=1, keepdim=True), scaled.amax(dim=1, keepdim=True)
    above = torch.nextafter(value, torch.full_like(value, math.inf))
    lost = scaled.argmax(dim=1, keepdim=True) != label
    return scaled.scatter(1, label, torch.where(lost, above, scaled.gather(1, label)))
