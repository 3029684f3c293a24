"""Entropies of predictions, which methods minimise or rank by."""

from __future__ import annotations

import math

import torch

__all__ = ["marginal_entropy", "prediction_entropy"]


def prediction_entropy(logits: torch.Tensor) -> torch.Tensor:
    """H(p_i) = −Σ_k p_ik ln p_ik of each row of `logits: (n, classes)`: `(n,)`."""
    log_p = torch.log_softmax(logits, dim=1)
    return -(log_p.exp() * log_p).sum(dim=1)


def marginal_entropy(logits: torch.Tensor) -> torch.Tensor:
    """H(p̄) with p̄ = (1/n) Σ_i softmax(logits_i), of all rows of `logits: (n, classes)` together: a scalar."""
    # log p̄ without leaving the logarithm: a class that no row believes in gives 0 · −large rather than 0 · −inf.
    log_p = torch.logsumexp(torch.log_softmax(logits, dim=1), dim=0) - math.log(len(logits))
    return -(log_p.exp() * log_p).sum()
