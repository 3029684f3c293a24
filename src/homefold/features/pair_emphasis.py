"""Pairs that count more in L_A: those of two domains, and those that are still wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from homefold.errors import ConfigError
from homefold.features.pair_blocks import pair_loss_in_blocks

__all__ = ["EVEN", "PairEmphasis", "Pairs", "emphasised_pair_loss"]


@dataclass(frozen=True)
class PairEmphasis:
    """Which pairs count more.

    Args:
        cross_domain: weight of same-label pairs from two domains, relative to those of one.
        hardness: γ of the weight |p − y|^γ.
    """

    cross_domain: float = 1.0
    hardness: float = 0.0

    @property
    def is_even(self) -> bool:
        """Whether all pairs count alike."""
        return self.cross_domain == 1 and self.hardness == 0


EVEN = PairEmphasis()


@dataclass(frozen=True, eq=False)
class Pairs:
    """All pairs of some rows with all columns.

    Args:
        rows: `(m, d)` unit vectors, a part of the columns.
        columns: `(n, d)` unit vectors.
        row_labels: `(m,)`.
        column_labels: `(n,)`.
        row_domains: `(m,)`, or None where domains do not matter.
        column_domains: `(n,)`, or None where domains do not matter.
    """

    rows: torch.Tensor
    columns: torch.Tensor
    row_labels: torch.Tensor
    column_labels: torch.Tensor
    row_domains: torch.Tensor | None
    column_domains: torch.Tensor | None


def emphasised_pair_loss(
    pairs: Pairs,
    temperature: float | torch.Tensor,
    bias: float | torch.Tensor,
    emphasis: PairEmphasis,
    *,
    balanced: bool,
    chunk: int,
    add_up: Callable[[Sequence[torch.Tensor]], None] | None = None,
) -> torch.Tensor:
    """L_A with weights: Σ w_ij BCE_ij, where the w_ij are constants that add up to 1.

    Same-label pairs first share their number evenly but for `cross_domain`; then all are multiplied by |p − y|^γ and
    scaled to a sum of 1, or where `balanced`, each kind to one half.

    Args:
        pairs: what is compared.
        temperature: τ.
        bias: b.
        emphasis: which pairs count more.
        balanced: weigh equal and different pairs half each.
        chunk: rows of the pair matrix held at a time.
        add_up: replaces tensors by their sums over all processes, where the rows are only this one's.
    """
    sums = _sums(pairs, temperature, bias, emphasis, chunk)
    if add_up is not None:
        add_up([sums])
    same_weight, different_weight = _factors(sums, balanced)

    def weigh(block: slice, same: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
        return _emphasis(pairs, emphasis, block, same, logits) * torch.where(same, same_weight, different_weight)

    return pair_loss_in_blocks(
        pairs.rows,
        pairs.columns,
        pairs.row_labels,
        pairs.column_labels,
        temperature,
        bias,
        balanced=balanced,
        chunk=chunk,
        weigh=weigh,
    )


@torch.no_grad()
def _sums(
    pairs: Pairs,
    temperature: float | torch.Tensor,
    bias: float | torch.Tensor,
    emphasis: PairEmphasis,
    chunk: int,
) -> torch.Tensor:
    """`(4,)`: how many pairs have equal labels, their weights by domain, and all weights of equal and of different."""
    even_hardness = PairEmphasis(cross_domain=emphasis.cross_domain)
    sums = pairs.rows.new_zeros(4)
    for start in range(0, len(pairs.rows), chunk):
        block = slice(start, start + chunk)
        logits = pairs.rows[block] @ pairs.columns.T / temperature + bias
        same = pairs.row_labels[block, None] == pairs.column_labels
        equal = same.to(logits.dtype)
        by_domain = _emphasis(pairs, even_hardness, block, same, logits)
        weights = _emphasis(pairs, emphasis, block, same, logits)
        parts = (equal, by_domain * equal, weights * equal, weights * (1 - equal))
        sums += torch.stack([part.sum() for part in parts])
    return sums


def _factors(sums: torch.Tensor, balanced: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """What the weights of equal and of different pairs are multiplied by."""
    equal, by_domain, same, different = sums.unbind()
    least = torch.finfo(sums.dtype).tiny
    if balanced:
        return 0.5 / same.clamp(min=least), 0.5 / different.clamp(min=least)
    # Each row is its own pair, so there are pairs of equal labels and one domain.
    keep_number = equal / by_domain
    total = (keep_number * same + different).clamp(min=least)
    return keep_number / total, 1 / total


def _emphasis(
    pairs: Pairs, emphasis: PairEmphasis, block: slice, same: torch.Tensor, logits: torch.Tensor
) -> torch.Tensor:
    """The weights of some rows' pairs before they are scaled."""
    weights = torch.ones_like(logits)
    if emphasis.cross_domain != 1:
        if pairs.row_domains is None or pairs.column_domains is None:
            raise ConfigError("a weight of pairs across domains needs the domain of every image: pass `domains`.")
        across = pairs.row_domains[block, None] != pairs.column_domains
        weights = weights.masked_fill(same & across, emphasis.cross_domain)
    if emphasis.hardness:
        # The error |p − y| as a sigmoid of its own, which stays above zero where 1 − p would round to it.
        weights = weights * torch.sigmoid(torch.where(same, -logits, logits)).pow(emphasis.hardness)
    return weights
