"""Layers in a row: cut where a kind of layer ends, and applied one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

__all__ = ["BackboneStages", "NamedPart", "Step", "chain", "cut_after", "named_cuts"]

Step = Callable[[torch.Tensor], torch.Tensor]
NamedPart = tuple[str, Sequence[nn.Module]]
"""Layers of a network in the order they are applied, and what settings call them."""


@dataclass(frozen=True, eq=False)
class BackboneStages:
    """A backbone as steps.

    Args:
        stages: each from a map `(n, c, h, w)` to the next, the first from normalised images.
        finish: from the last map to the backbone's output `(n, d)`.
    """

    stages: tuple[Step, ...]
    finish: Step


def chain(steps: Iterable[Step]) -> Step:
    """All of them, one after the other."""
    kept = tuple(steps)

    def run(x: torch.Tensor) -> torch.Tensor:
        for step in kept:
            x = step(x)
        return x

    return run


def cut_after(layers: Iterable[nn.Module], kind: type[nn.Module]) -> tuple[list[list[nn.Module]], list[nn.Module]]:
    """Runs of layers that end with one of `kind`, and the layers after the last of them."""
    parts: list[list[nn.Module]] = [[]]
    for layer in layers:
        parts[-1].append(layer)
        if isinstance(layer, kind):
            parts.append([])
    return parts[:-1], parts[-1]


def named_cuts(layers: Iterable[nn.Module], kind: type[nn.Module], name: str) -> list[NamedPart]:
    """Runs of layers that end with one of `kind`, numbered from 1; what comes after the last of them is the last."""
    parts, rest = cut_after(layers, kind)
    return [(f"{name}{number}", part) for number, part in enumerate([*parts, rest], start=1) if part]
