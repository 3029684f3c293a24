"""The training loop that stage 1 and every training-time method share: epochs, selection, checkpoints."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.func import functional_call
from torch.nn.modules.batchnorm import _BatchNorm

from homefold.config.features import FeatureConfig
from homefold.data.dataset import DomainDataset
from homefold.errors import ConfigError, ModelFileError, TrainingDivergedError, cut, shown
from homefold.features.averaging import ScheduledAverage, TrainingAverage, saved_history
from homefold.features.batches import FeatureStore, ImageStore
from homefold.features.collapse import FeatureSpread, feature_spread, require_spread
from homefold.features.gradient_step import GradientStep, require_even_parts, worth_compiling
from homefold.features.schedule import epoch_batches, learning_rate_factor
from homefold.runtime.device import autocast, resolve_precision
from homefold.runtime.module_state import load_exactly, require_same
from homefold.runtime.processes import add_up, current_processes, from_first
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.seeding import generator, isolated_seed
from homefold.store.files import read_state, write_state

__all__ = ["Batch", "ParameterGroup", "TrainingImages", "TrainingRun", "complete_run"]

_LARGEST_VALIDATION_BATCH = 2048


@dataclass(frozen=True, eq=False)
class Batch:
    """One step's images, all on the device.

    Args:
        images: `(n, 3, h, w)` floats in [0, 1], augmented; of a frozen backbone, its features `(n, d)`.
        labels: `(n,)` classes.
        domains: `(n,)` source domains, from 0.
        rows: `(n,)` which training images they are, from 0; see `TrainingImages`.
        step: how many steps came before, over all epochs.
        steps: how many the whole training has.
    """

    images: torch.Tensor
    labels: torch.Tensor
    domains: torch.Tensor
    rows: torch.Tensor
    step: int = 0
    steps: int = 1

    @property
    def progress(self) -> float:
        """Share of the training that is over, from 0 to below 1."""
        return self.step / self.steps

    def __len__(self) -> int:
        return len(self.images)


class TrainingImages:
    """All images that are trained on, without augmentation, for what looks at them between epochs.

    Args:
        store: all source images.
        indices: `(n,)` those that are trained on; row i of this class is the image at `indices[i]`.
        labels: `(n,)` classes, on the device.
        domains: `(n,)` source domains, on the device.
    """

    def __init__(
        self, store: ImageStore | FeatureStore, indices: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor
    ) -> None:
        self._store, self._indices = store, indices
        self.labels, self.domains = labels, domains

    def __len__(self) -> int:
        return len(self._indices)

    def batch(self, rows: torch.Tensor) -> torch.Tensor:
        """`(b, 3, h, w)` floats in [0, 1] of the training images `rows: (b,)`."""
        return self._store.batch(self._indices[rows.to(self._indices.device)])


@dataclass(frozen=True, eq=False)
class ParameterGroup:
    """Parameters that learn at `rate` times the configured learning rate."""

    parameters: list[nn.Parameter]
    rate: float = 1.0


class TrainingRun(ABC):
    """The state of one training between two epochs, and how an epoch changes it.

    `net` is trained, averaged and selected; `objective` is trained and selected along with it but not averaged. `store`
    stands for the images of `dataset` where `net` is not given those themselves.
    """

    net: nn.Module
    objective: nn.Module
    shares_batches = False
    """Whether the losses of several processes, each on its part of a batch, add up to the loss of the batch."""

    @property
    def collapse_advice(self) -> str:
        """What a person is told to do when all features became one."""
        own = "the weights and rates of the method's own (homefold methods NAME lists them)"
        return f"Lower features.learning_rate, or {own}."

    def __init__(
        self,
        config: FeatureConfig,
        net: nn.Module,
        objective: nn.Module,
        dataset: DomainDataset,
        train: np.ndarray,
        held_out: np.ndarray,
        seed: int,
        device: torch.device,
        store: FeatureStore | None = None,
    ) -> None:
        self.config, self.seed, self.device = config, seed, device
        self.net = net.to(device).to(memory_format=torch.channels_last)
        self.objective = objective.to(device)
        self.store: ImageStore | FeatureStore = store or ImageStore(dataset.images, device)
        self.labels = torch.from_numpy(dataset.labels)
        self.domains = torch.from_numpy(dataset.domains)
        self.train_indices = torch.from_numpy(train)
        self.training_images = TrainingImages(
            self.store,
            self.train_indices,
            self.labels[self.train_indices].to(device),
            self.domains[self.train_indices].to(device),
        )
        # Shuffled once: where pairs are compared in parts, each part then holds every domain and class.
        shuffle = torch.randperm(len(held_out), generator=generator(seed, "held out"))
        self.held_out_indices = torch.from_numpy(held_out)[shuffle]
        self.num_classes = len(dataset.class_names)
        self.dtype = resolve_precision(config.precision, device)
        groups = self.parameter_groups()
        self.rates = [group.rate for group in groups]
        self.optimizer = self.make_optimizer([{"params": group.parameters} for group in groups])
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype == torch.float16)
        self.processes = current_processes()
        if self.processes.count > 1 and not self.shares_batches:
            raise ConfigError("this method cannot be trained by several processes; start it without torchrun.")
        steps = config.epochs * max(1, len(train) // config.batch_size)
        self.compiled = worth_compiling(config.compile, device, steps)
        self.gradient_step = GradientStep(
            self._loss_of,
            self.optimizer,
            self.scaler,
            config.augmentation,
            device,
            self.dtype,
            compiled=self.compiled,
            captured=config.cuda_graph == "auto" and self.capturable,
            take_gradient=self.take_gradient,
        )
        self.average = self.make_average()
        self.epoch, self.best_epoch, self.best_value = 0, 0, float("inf")
        self.best_net: dict[str, torch.Tensor] = {}
        self.best_objective: dict[str, torch.Tensor] = {}
        self.history: list[dict[str, float]] = []
        self._step, self._total = 0, 1

    @property
    def capturable(self) -> bool:
        """Whether `batch_loss` does the same at every step, without looking at `step`: it can be captured."""
        return False

    def make_optimizer(self, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
        """What steps: SGD, as the settings say."""
        config = self.config
        return torch.optim.SGD(
            groups,
            lr=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.momentum > 0,
            weight_decay=config.weight_decay,
            # A fused first step that float16's scaler skips would leave its momentum unset.
            fused=True if self.device.type == "cuda" and self.dtype != torch.float16 else None,
        )

    def make_average(self) -> TrainingAverage:
        """Which weights are averaged: those that the settings say."""
        return ScheduledAverage(self.net, self.config.average_from, self.config.average_every)

    def take_gradient(self, gradient: Callable[[], torch.Tensor]) -> torch.Tensor:
        """Leave the gradient that the optimiser steps by at the weights; the loss. See `TakeGradient`."""
        return gradient()

    def parameter_groups(self) -> list[ParameterGroup]:
        """What is trained."""
        return [ParameterGroup([*self.net.parameters(), *self.objective.parameters()])]

    def epoch_start(self) -> None:  # noqa: B027 - most trainings have nothing to do there
        """Called before each epoch, with the network in training mode."""

    @abstractmethod
    def batch_loss(self, batch: Batch) -> torch.Tensor:
        """What a step minimises, called under autocast."""

    @abstractmethod
    def criterion(self, z: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """What selection minimises, from what `held_out` gave."""

    def held_out(self, output: Any) -> tuple[torch.Tensor, torch.Tensor]:
        """The network's output for held-out images as features `(n, d)` and what `criterion` scores."""
        z = output.float()
        return z, z

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs to go on as if nothing had happened."""
        for group in self.optimizer.param_groups:
            # A captured step keeps its rate in device memory; it is set at every step anyway.
            group["lr"] = self.config.learning_rate
        return {
            "epoch": self.epoch,
            "net": self.net.state_dict(),
            "objective": self.objective.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "scaler": self.scaler.state_dict(),
            "average": self.average.state_dict(),
            "best_epoch": self.best_epoch,
            "best_value": self.best_value,
            "best_net": self.best_net,
            "best_objective": self.best_objective,
            "history": self.history,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        load_exactly(self.net, state["net"], "the network")
        load_exactly(self.objective, state["objective"], "the objective")
        self._restore_optimizer(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.average.load_state_dict(state["average"])
        self.epoch, self.best_epoch = self._epoch(state["epoch"]), self._epoch(state["best_epoch"])
        self.best_value = float(state["best_value"])
        self.best_net = self._selected(self.net, state["best_net"], "the selected network")
        self.best_objective = self._selected(self.objective, state["best_objective"], "the selected objective")
        self.history = saved_history(state["history"])

    def _restore_optimizer(self, state: dict[str, Any]) -> None:
        """Take over the momentum; rates and the like follow from the settings."""
        settings = [dict(group) for group in self.optimizer.param_groups]
        self.optimizer.load_state_dict(state)
        for group, own in zip(self.optimizer.param_groups, settings, strict=True):
            group.update(own)
        for parameter, kept in self.optimizer.state.items():
            # Files keep values, not memory formats, and a fused step wants momentum laid out as its parameter is.
            if (momentum := kept.get("momentum_buffer")) is not None:
                require_same({"momentum": parameter}, {"momentum": momentum}, "the optimiser")
                kept["momentum_buffer"] = torch.empty_like(parameter).copy_(momentum)

    def _epoch(self, value: Any) -> int:
        if type(value) is not int or not 0 <= value <= self.config.epochs:
            raise ValueError(f"epoch {shown(value)} of {self.config.epochs}")
        return value

    def _selected(self, module: nn.Module, tensors: Any, what: str) -> dict[str, torch.Tensor]:
        if not tensors and not self.epoch:
            return {}  # before the first epoch nothing was selected
        require_same(module.state_dict(), tensors, what)
        return {name: value.to(self.device) for name, value in tensors.items()}

    def train_epoch(self, checkpoint: Path | None) -> dict[str, float]:
        """One pass over the training images, its validation, and the selection."""
        config = self.config
        order = self._own_rows(self.epoch)
        augmentation = generator(self.seed, "augmentation", self.epoch, device=self.device)
        averaged_before = self.average.count
        losses = torch.empty(len(order), device=self.device)
        # Once an epoch: a step that moved its rows to the device would wait for it.
        rows = order.to(self.device)
        self._total = config.epochs * len(order)
        self.net.train()
        with self._own_draws(self.epoch):
            self.epoch_start()
            for step, pixels in enumerate(self.store.batches(self.train_indices[order])):
                self._step = self.epoch * len(order) + step
                losses[step] = self._train_step(pixels, rows[step], augmentation)
                self.average.after_step(self._step + 1, self._total)
        self._agree(losses)
        if len(bad := torch.nonzero(~torch.isfinite(losses)).flatten()):
            where = f"the loss became {float(losses[bad[0]])} at epoch {self.epoch + 1}, step {int(bad[0]) + 1}"
            raise self._diverged(f"{where} of {len(losses)}", checkpoint)
        self.epoch += 1
        self.average.after_epoch(
            self.epoch, config.epochs, lambda: self.held_out_value(self.net.state_dict(), checkpoint)
        )
        value = self.held_out_value(self._candidate(), checkpoint)
        first_averaged = averaged_before == 0 and self.average.count > 0
        settled = self.average.decides and self.average.count > 0
        if config.select == "last" or first_averaged or settled or value < self.best_value:
            # The first averaged weights start a new competition: raw and averaged states are not compared.
            self.best_value, self.best_epoch = value, self.epoch
            self.best_net = {key: item.detach().clone() for key, item in self._candidate().items()}
            self.best_objective = {key: item.detach().clone() for key, item in self.objective.state_dict().items()}
        figures = {"epoch": float(self.epoch), "loss": float(losses.mean()), "held_out_loss": value}
        self.history.append(figures)
        return figures

    def _own_rows(self, epoch: int) -> torch.Tensor:
        """`(steps, b)` rows of the training images that one epoch gives this process, as they come."""
        order = epoch_batches(
            self.labels[self.train_indices],
            self.domains[self.train_indices],
            self.config.batch_size,
            self.config.sampling,
            generator(self.seed, "order", epoch),
        )
        require_even_parts(order.shape[1], self.processes.count)
        return order[:, self.processes.part(order.shape[1])]

    def _own_draws(self, epoch: int) -> AbstractContextManager[None]:
        """Inside, what is drawn in a step is this process's own, such as dropout; one alone draws as it always did."""
        own = (self.processes.rank,) if self.processes.count > 1 else ()
        return isolated_seed(self.seed, "epoch", epoch, *own, device=self.device)

    def renew_statistics(self) -> None:
        """Take the batch-norm statistics of the network's present weights, from one epoch of varied training images.

        The mean over all batches, each of which counts alike; layers that are frozen keep theirs.
        """
        self.net.train()
        self.epoch_start()
        layers = [layer for layer in self.net.modules() if isinstance(layer, _BatchNorm) and layer.training]
        layers = [layer for layer in layers if layer.track_running_stats]
        momenta = [layer.momentum for layer in layers]
        for layer in layers:
            layer.reset_running_stats()
            layer.momentum = None
        if layers:
            self._pass_images()
        for layer, momentum in zip(layers, momenta, strict=True):
            layer.momentum = momentum
        self._average_over_processes(list(self._own_statistics().values()))
        self.net.eval()

    @torch.no_grad()
    def _pass_images(self) -> None:
        """One more epoch of images through the network, of which it learns nothing."""
        epoch = self.config.epochs
        augmentation = generator(self.seed, "augmentation", epoch, device=self.device)
        with self._own_draws(epoch):
            for pixels in self.store.batches(self.train_indices[self._own_rows(epoch)]):
                images = self.gradient_step.varied(pixels, augmentation)
                with autocast(self.device, self.dtype):
                    self.net(images)

    def _train_step(self, pixels: torch.Tensor, rows: torch.Tensor, augmentation: torch.Generator) -> torch.Tensor:
        config = self.config
        factor = learning_rate_factor(
            config.schedule, self._step, self._total, milestones=config.milestones, decay=config.decay
        )
        rates = [config.learning_rate * factor * rate for rate in self.rates]
        labels, domains = self.training_images.labels[rows], self.training_images.domains[rows]
        return self.gradient_step(pixels, labels, domains, rows, rates=rates, generator=augmentation)

    def _loss_of(
        self, images: torch.Tensor, labels: torch.Tensor, domains: torch.Tensor, rows: torch.Tensor
    ) -> torch.Tensor:
        return self.batch_loss(Batch(images, labels, domains, rows, self._step, self._total))

    def _agree(self, losses: torch.Tensor) -> None:
        """Add up the processes' shares of the losses, and average the batch-norm statistics that each has."""
        if self.processes.count == 1:
            return
        add_up([losses])
        statistics = self._own_statistics()
        # Averages taken within an epoch saw each process's own.
        means = self.average.within_epoch
        self._average_over_processes([*statistics.values(), *(means[name] for name in statistics if name in means)])

    def _average_over_processes(self, values: list[torch.Tensor]) -> None:
        if self.processes.count > 1:
            add_up(values)
            for value in values:
                value.div_(self.processes.count)

    def _own_statistics(self) -> dict[str, torch.Tensor]:
        """What the network keeps of its images, by name; but for what is frozen, as a mean of equals may be rounded."""
        learning = ((prefix, module) for prefix, module in self.net.named_modules() if module.training)
        buffers = (item for prefix, module in learning for item in module.named_buffers(prefix, recurse=False))
        return {name: value for name, value in buffers if value.is_floating_point()}

    def _candidate(self) -> dict[str, torch.Tensor]:
        return self.average.mean if self.average.count else self.net.state_dict()

    def _held_out(self, state: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        self.net.eval()
        # In training's own precision: float32 would take several times as long and choose the same epoch.
        with torch.no_grad(), autocast(self.device, self.dtype):
            parts = [
                self.held_out(functional_call(self.net, state, (self.store.batch(chunk),)))
                for chunk in self.held_out_indices.split(self.config.batch_size)
            ]
        return torch.cat([z for z, _ in parts]), torch.cat([scores for _, scores in parts])

    def held_out_value(self, state: dict[str, torch.Tensor], checkpoint: Path | None = None) -> float:
        """The criterion on the held-out images with these weights, which must not have collapsed."""
        z, scores = self._held_out(state)
        labels = self.labels[self.held_out_indices].to(self.device)
        if not torch.isfinite(z).all():
            where = f"the features of the held-out images are not finite after epoch {self.epoch}"
            raise self._diverged(where, checkpoint)
        spread = feature_spread(z[:_LARGEST_VALIDATION_BATCH], labels[:_LARGEST_VALIDATION_BATCH])
        require_spread(spread, self.epoch, self.collapse_advice)
        parts = zip(*(item.split(_LARGEST_VALIDATION_BATCH) for item in (z, scores, labels)), strict=True)
        with torch.no_grad():
            values = [len(y) * self.criterion(part, score, y) for part, score, y in parts]
        return from_first(float(torch.stack(values).sum() / len(z)), self.device)

    def _diverged(self, what: str, checkpoint: Path | None) -> TrainingDivergedError:
        kept = ""
        if checkpoint is not None and checkpoint.exists():
            kept = (
                f" The last good state stays in {checkpoint}; other settings start anew once {checkpoint.parent} is "
                f"deleted."
            )
        return TrainingDivergedError(
            f"training diverged: {what}. Lower features.learning_rate (it was {self.config.learning_rate}), or choose "
            f"features.precision=float32.{kept}"
        )

    def put_back_best(self) -> FeatureSpread:
        """Put the selected state into the network, and say how its held-out features lie."""
        self.load_best()
        z = self._held_out(self.net.state_dict())[0][:_LARGEST_VALIDATION_BATCH]
        return feature_spread(z, self.held_out_labels().to(self.device))

    def load_best(self) -> None:
        """Put the selected state into the network."""
        self.net.load_state_dict(self.best_net)
        self.objective.load_state_dict(self.best_objective)
        self.net.eval()
        self.objective.eval()

    def held_out_labels(self) -> torch.Tensor:
        """Classes of the held-out images that the report looks at."""
        return self.labels[self.held_out_indices][:_LARGEST_VALIDATION_BATCH]


def go_on_from(checkpoint: Path, restore: Callable[[dict[str, Any]], None]) -> None:
    """Give `restore` what a checkpoint holds; a `ModelFileError` where it does not fit this training."""
    state = read_state(checkpoint)
    try:
        restore(state)
    except ConfigError:
        raise
    except (ModelFileError, KeyError, TypeError, ValueError, AttributeError, RuntimeError, IndexError) as error:
        reason = str(error).rstrip(".") if isinstance(error, ModelFileError) else cut(repr(error))
        raise ModelFileError(f"{checkpoint} does not fit this training ({reason}); delete it to start anew.") from None


def complete_run(
    run: TrainingRun,
    *,
    checkpoint: Path | None = None,
    reporter: ProgressReporter | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    title: str = "Features",
) -> None:
    """Train `run` to its last epoch, from its checkpoint if there is one; see `train_features`."""
    config = run.config
    if checkpoint is not None and checkpoint.exists():
        go_on_from(checkpoint, run.restore)
    elif checkpoint is not None and isinstance(run.store, FeatureStore) and run.processes.is_first:
        # Its features took a pass of all images through the backbone.
        write_state(checkpoint, run.state())
    reporter = reporter or SilentReporter()
    last_written = time.monotonic()
    with reporter.task(title, total=config.epochs) as bar:
        bar.advance(run.epoch)
        while run.epoch < config.epochs:
            figures = run.train_epoch(checkpoint)
            bar.advance(1, loss=figures["loss"], held_out=figures["held_out_loss"])
            if on_epoch:
                on_epoch(figures)
            due = time.monotonic() - last_written >= config.checkpoint_seconds
            if checkpoint is not None and run.processes.is_first and (due or run.epoch == config.epochs):
                write_state(checkpoint, run.state())
                last_written = time.monotonic()
