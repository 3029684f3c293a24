"""Means of a network's weights: over the later part of a training, over several trainings, and with their start."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from homefold.config.values import LARGEST_COUNT
from homefold.errors import shown
from homefold.runtime.module_state import require_same

__all__ = ["FinishedRuns", "WeightAverage", "average_is_due", "interpolate_back", "saved_history"]


def average_is_due(step: int, steps: int, start: float, every: int) -> bool:
    """Whether the weights after `step` (from 1) of `steps` are averaged: all `every` steps (0: never) from `start` on.

    `start` is a fraction of the training. In a training too short for any, the last are averaged.

    >>> [step for step in range(1, 21) if average_is_due(step, 20, 0.5, 3)]
    [12, 15, 18]
    >>> [step for step in range(1, 8) if average_is_due(step, 7, 0.5, 20)]
    [7]
    """
    if every == 0 or not step > start * steps:
        return False
    none_fits = not steps // every * every > start * steps
    return step == steps if none_fits else step % every == 0


@torch.no_grad()
def interpolate_back(net: nn.Module, start: nn.Module, share: float) -> None:
    """Move the weights and batch-norm statistics of `net` towards those of `start`: θ ← θ + share · (θ_start − θ).

    >>> net, start = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    >>> _ = nn.init.constant_(net.weight, 1.0), nn.init.constant_(start.weight, 3.0)
    >>> interpolate_back(net, start, 0.25)
    >>> net.weight.item()
    1.5
    """
    before = start.state_dict()
    for name, value in net.state_dict().items():
        if value.is_floating_point():
            value.lerp_(before[name].to(value), share)


def saved_history(entries: Any) -> list[dict[str, float]]:
    """The figures of each epoch, as a checkpoint keeps them."""
    return [{str(name): float(value) for name, value in entry.items()} for entry in entries]


class WeightAverage:
    """A running mean of every floating-point tensor of a module's state, batch-norm statistics included."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.count = 0
        self.mean: dict[str, torch.Tensor] = {}

    @torch.no_grad()
    def update(self) -> None:
        """Add the module's present weights to the mean."""
        self.count += 1
        for name, value in self.module.state_dict().items():
            if name not in self.mean or not value.is_floating_point():
                self.mean[name] = value.detach().clone()
            else:
                self.mean[name] += (value - self.mean[name]) / self.count

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint must keep."""
        return {"count": self.count, "mean": self.mean}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint, on the module's device."""
        own = self.module.state_dict()
        count, mean = state["count"], state["mean"]
        if type(count) is not int or not 0 <= count <= LARGEST_COUNT or bool(count) != bool(mean):
            raise ValueError(f"a mean over {shown(count)} states")
        require_same(own if mean else {}, mean, "the mean of weights")
        self.count = count
        self.mean = {name: value.to(own[name].device) for name, value in mean.items()}


class FinishedRuns:
    """The mean of what several trainings from one start ended with, and how each went."""

    def __init__(self, net: nn.Module, objective: nn.Module) -> None:
        self._net, self._objective = WeightAverage(net), WeightAverage(objective)
        self.history: list[dict[str, float]] = []
        self.values: list[float] = []
        """What selection looked at, at the end of each."""

    @property
    def count(self) -> int:
        """How many there are."""
        return self._net.count

    def add(self, history: list[dict[str, float]], value: float) -> None:
        """Count in what network and objective hold now, after epochs with these figures, and how good it is."""
        self._net.update()
        self._objective.update()
        self.history += history
        self.values.append(value)

    def put_back(self) -> None:
        """Let network and objective be the mean of all runs."""
        for average in (self._net, self._objective):
            average.module.load_state_dict(average.mean)

    def state_dict(self) -> dict[str, object]:
        """What a checkpoint must keep."""
        averages = {"net": self._net.state_dict(), "objective": self._objective.state_dict()}
        return {"count": self.count, "history": self.history, "values": self.values, **averages}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
        self._net.load_state_dict(state["net"])
        self._objective.load_state_dict(state["objective"])
        self.history, self.values = saved_history(state["history"]), [float(value) for value in state["values"]]
