"""Means of a network's weights: over the later part of a training, over several trainings, and with their start."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from homefold.config.values import LARGEST_COUNT
from homefold.errors import shown
from homefold.runtime.module_state import require_same

__all__ = [
    "FinishedRuns",
    "ScheduledAverage",
    "TrainingAverage",
    "ValleyAverage",
    "WeightAverage",
    "average_is_due",
    "interpolate_back",
    "loss_valley",
    "saved_history",
]


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


def loss_valley(losses: Sequence[float], patience: int, tolerance: int, ratio: float) -> tuple[int, int] | None:
    """The first and the last place of the valley of `losses`; None as long as there is none.

    It begins at the first loss that the `patience` - 1 after it do not undercut. It ends with the last loss that is at
    most `ratio` times the mean of these, before `tolerance` in a row are above.

    >>> loss_valley([3.0, 1.0, 1.1, 1.2, 0.9, 2.0, 1.3, 2.0, 2.0, 0.5], patience=3, tolerance=2, ratio=1.3)
    (1, 6)
    >>> loss_valley([3.0, 2.0, 1.0, 1.1], patience=3, tolerance=2, ratio=1.3)
    """
    for start in range(len(losses) - patience + 1):
        first = losses[start : start + patience]
        if losses[start] == min(first):
            break
    else:
        return None
    last, most = start, ratio * sum(first) / patience
    for place in range(start, len(losses)):
        if losses[place] <= most:
            last = place
        elif place - last == tolerance:
            break
    return start, last


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

    def update(self) -> None:
        """Add the module's present weights to the mean."""
        self.add(self.module.state_dict())

    @torch.no_grad()
    def add(self, state: dict[str, torch.Tensor], number: int = 1) -> None:
        """Add the mean `state` of `number` of the module's states to the mean."""
        self.count += number
        for name, value in state.items():
            if name not in self.mean or not value.is_floating_point():
                self.mean[name] = value.detach().clone()
            else:
                self.mean[name] += (value - self.mean[name]) / (self.count / number)

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


class TrainingAverage(WeightAverage, ABC):
    """A mean over part of a training, which the training loop tells of every step and epoch."""

    decides = False
    """Whether the newest mean is the result, however earlier ones did on held-out images."""

    @abstractmethod
    def after_step(self, step: int, steps: int) -> None:
        """Called after `step` (from 1) of `steps`."""

    @abstractmethod
    def after_epoch(self, epoch: int, epochs: int, held_out_loss: Callable[[], float]) -> None:
        """Called after `epoch` (from 1) of `epochs`; the loss is that of the weights as they are."""

    @property
    @abstractmethod
    def within_epoch(self) -> dict[str, torch.Tensor]:
        """The mean that the steps of an epoch go into; empty where they go into none."""


class ScheduledAverage(TrainingAverage):
    """The mean from the fraction `start` of the training on: `every` so many steps, or with 0 once an epoch."""

    def __init__(self, module: nn.Module, start: float, every: int) -> None:
        super().__init__(module)
        self._start, self._every = start, every

    def after_step(self, step: int, steps: int) -> None:
        if average_is_due(step, steps, self._start, self._every):
            self.update()

    def after_epoch(self, epoch: int, epochs: int, held_out_loss: Callable[[], float]) -> None:
        if self._start < 1 and self._every == 0 and epoch > self._start * epochs:
            self.update()

    @property
    def within_epoch(self) -> dict[str, torch.Tensor]:
        return self.mean if self._every else {}


class ValleyAverage(TrainingAverage):
    """SWAD: the mean of the weights after every step of those epochs that lie in the valley of the held-out loss.

    The loss of the weights themselves after each epoch decides; see `loss_valley`, whose other arguments these are.
    Beside the mean, those of a few epochs are kept that may yet turn out to lie in the valley.
    """

    decides = True

    def __init__(self, module: nn.Module, *, patience: int = 3, tolerance: int = 6, ratio: float = 1.3) -> None:
        super().__init__(module)
        self._patience, self._tolerance, self._ratio = patience, tolerance, ratio
        self._losses: list[float] = []
        self._waiting: list[WeightAverage] = []
        self._epoch = WeightAverage(module)

    def after_step(self, step: int, steps: int) -> None:
        if not self._is_over:
            self._epoch.update()

    def after_epoch(self, epoch: int, epochs: int, held_out_loss: Callable[[], float]) -> None:
        if self._is_over:
            return
        self._losses.append(held_out_loss())
        self._waiting.append(self._epoch)
        self._epoch = WeightAverage(self.module)
        begin = len(self._losses) - len(self._waiting)
        if (valley := self._valley()) is None:
            known = max(0, len(self._waiting) - self._patience + 1)
        else:
            known = max(0, valley[1] + 1 - begin)
            for mean in self._waiting[max(0, valley[0] - begin) : known]:
                self.add(mean.mean, mean.count)
        self._waiting = [] if self._is_over else self._waiting[known:]

    @property
    def within_epoch(self) -> dict[str, torch.Tensor]:
        return self._epoch.mean

    def _valley(self) -> tuple[int, int] | None:
        return loss_valley(self._losses, self._patience, self._tolerance, self._ratio)

    @property
    def _is_over(self) -> bool:
        valley = self._valley()
        return valley is not None and len(self._losses) > valley[1] + self._tolerance

    def state_dict(self) -> dict[str, object]:
        waiting = [mean.state_dict() for mean in self._waiting]
        return {**super().state_dict(), "losses": self._losses, "waiting": waiting}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        super().load_state_dict(state)
        self._losses = [float(loss) for loss in state["losses"]]
        self._waiting = [WeightAverage(self.module) for _ in state["waiting"]]
        for mean, saved in zip(self._waiting, state["waiting"], strict=True):
            mean.load_state_dict(saved)


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
