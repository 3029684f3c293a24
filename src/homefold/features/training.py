"""Stage 1: train f_θ on the pooled sources, select on a held-out part of them, survive being killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.func import functional_call

from homefold.data.dataset import DomainDataset
from homefold.device import autocast, resolve_precision
from homefold.errors import TrainingDivergedError
from homefold.features.averaging import WeightAverage
from homefold.features.batches import ImageStore
from homefold.features.collapse import FeatureSpread, feature_spread, require_spread
from homefold.features.config import FeatureConfig
from homefold.features.gradient_step import GradientStep, require_even_parts, worth_compiling
from homefold.features.loss import pairwise_metric_loss_bound
from homefold.features.network import FeatureNet
from homefold.features.objective import Objective
from homefold.features.sampling import epoch_batches
from homefold.features.schedule import learning_rate_factor
from homefold.files import read_state, write_state
from homefold.processes import add_up, current_processes, from_first
from homefold.progress import ProgressReporter, SilentReporter
from homefold.seeding import generator, isolated_seed

__all__ = ["FeatureReport", "TrainedFeatures", "train_features"]

_LARGEST_VALIDATION_BATCH = 2048


@dataclass(frozen=True)
class FeatureReport:
    """What stage 1 ended with.

    Args:
        criterion: what selection looked at: `pairwise metric loss` or `cross entropy`, on held-out source images.
        selected_epoch: the epoch whose weights were kept, from 1.
        held_out_loss: the criterion there.
        bound: about the least value L_A can take there; 0 for cross entropy.
        spread: how the held-out features lie.
        history: one entry an epoch: `epoch`, `loss`, `held_out_loss`.
    """

    criterion: str
    selected_epoch: int
    held_out_loss: float
    bound: float
    spread: FeatureSpread
    history: tuple[dict[str, float], ...]

    def as_dict(self) -> dict[str, Any]:
        """For records."""
        return asdict(self)


@dataclass(frozen=True)
class TrainedFeatures:
    """The network in its selected state (eval mode), the objective with its own layers, and the report."""

    net: FeatureNet
    objective: Objective
    report: FeatureReport


def train_features(
    config: FeatureConfig,
    net: FeatureNet,
    dataset: DomainDataset,
    train: np.ndarray,
    held_out: np.ndarray,
    *,
    seed: int,
    device: torch.device,
    checkpoint: Path | None = None,
    reporter: ProgressReporter | None = None,
    on_epoch: Callable[[dict[str, float]], None] | None = None,
    objective_state: dict[str, torch.Tensor] | None = None,
) -> TrainedFeatures:
    """Train `net` on `dataset[train]`, keeping the state that does best on `dataset[held_out]`.

    Args:
        config: every setting.
        net: trained in place.
        dataset: source domains only.
        train: indices to train on.
        held_out: indices to select on.
        seed: with the same seed, machine and data the result has the same bytes (on CUDA: with deterministic
            algorithms), also when the run was killed in between and goes on from `checkpoint`.
        device: where to train.
        checkpoint: file to keep the state in after an epoch; read first if it exists.
        reporter: shows a bar.
        on_epoch: called with each finished epoch's figures.
        objective_state: of an earlier training's objective, to go on from when fine-tuning.
    """
    with isolated_seed(seed, "objective"):
        objective = Objective(
            net.feature_dim,
            len(dataset.class_names),
            metric_weight=config.metric_weight,
            cross_entropy_weight=config.cross_entropy_weight,
            temperature=config.temperature,
            learn_temperature=config.learn_temperature,
            bias=config.pair_bias,
            balanced_pairs=config.balanced_pairs,
        )
    if objective_state is not None:
        objective.load_state_dict(objective_state)
    run = _Run(config, net, objective, dataset, train, held_out, seed, device)
    if checkpoint is not None and checkpoint.exists():
        run.restore(read_state(checkpoint))
    reporter = reporter or SilentReporter()
    last_written = time.monotonic()
    with reporter.task("Features", total=config.epochs) as bar:
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
    return run.finish()


class _Run:
    """The state of one training between two epochs, and how an epoch changes it."""

    def __init__(
        self,
        config: FeatureConfig,
        net: FeatureNet,
        objective: Objective,
        dataset: DomainDataset,
        train: np.ndarray,
        held_out: np.ndarray,
        seed: int,
        device: torch.device,
    ) -> None:
        self.config, self.seed, self.device = config, seed, device
        self.net = net.to(device).to(memory_format=torch.channels_last)
        self.objective = objective.to(device)
        self.store = ImageStore(dataset.images, device)
        self.labels = torch.from_numpy(dataset.labels)
        self.domains = torch.from_numpy(dataset.domains)
        self.train_indices = torch.from_numpy(train)
        # Shuffled once: where pairs are compared in parts, each part then holds every domain and class.
        shuffle = torch.randperm(len(held_out), generator=generator(seed, "held out"))
        self.held_out_indices = torch.from_numpy(held_out)[shuffle]
        self.num_classes = len(dataset.class_names)
        self.dtype = resolve_precision(config.precision, device)
        self.optimizer = torch.optim.SGD(
            [*self.net.parameters(), *self.objective.parameters()],
            lr=config.learning_rate,
            momentum=config.momentum,
            nesterov=config.momentum > 0,
            weight_decay=config.weight_decay,
            fused=True if device.type == "cuda" else None,
        )
        self.scaler = torch.amp.GradScaler(device.type, enabled=self.dtype == torch.float16)
        self.processes = current_processes()
        steps = config.epochs * max(1, len(train) // config.batch_size)
        compiled = worth_compiling(config.compile, device, steps)
        self._forward: Callable[[torch.Tensor], torch.Tensor] = torch.compile(self.net) if compiled else self.net
        self.gradient_step = GradientStep(
            self._batch_loss,
            self.optimizer,
            self.scaler,
            config.augmentation,
            device,
            self.dtype,
            compiled=compiled,
            # A fading loss is another one at every step.
            recorded=config.cuda_graph == "auto" and not self._fades,
        )
        self.average = WeightAverage(self.net)
        self.epoch = 0
        self.best_epoch = 0
        self.best_value = float("inf")
        self.best_net: dict[str, torch.Tensor] = {}
        self.best_objective: dict[str, torch.Tensor] = {}
        self.history: list[dict[str, float]] = []
        self._step, self._total = 0, 1

    def state(self) -> dict[str, Any]:
        """Everything that `restore` needs to go on as if nothing had happened."""
        for group in self.optimizer.param_groups:
            # A recorded step keeps its rate in device memory; it is set at every step anyway.
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
        self.net.load_state_dict(state["net"])
        self.objective.load_state_dict(state["objective"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.scaler.load_state_dict(state["scaler"])
        self.average.load_state_dict(state["average"])
        self.epoch, self.best_epoch, self.best_value = state["epoch"], state["best_epoch"], state["best_value"]
        self.best_net = {key: value.to(self.device) for key, value in state["best_net"].items()}
        self.best_objective = {key: value.to(self.device) for key, value in state["best_objective"].items()}
        self.history = list(state["history"])

    def train_epoch(self, checkpoint: Path | None) -> dict[str, float]:
        """One pass over the training images, its validation, and the selection."""
        config = self.config
        order = epoch_batches(
            self.labels[self.train_indices],
            self.domains[self.train_indices],
            config.batch_size,
            config.sampling,
            generator(self.seed, "order", self.epoch),
        )
        augmentation = generator(self.seed, "augmentation", self.epoch, device=self.device)
        losses = torch.empty(len(order), device=self.device)
        require_even_parts(order.shape[1], self.processes.count)
        indices = self.train_indices[order[:, self.processes.part(order.shape[1])]]
        # Once an epoch: a step that moved its labels to the device would wait for it.
        labels = self.labels[indices].to(self.device)
        self.net.train()
        # Processes vary by what each draws for itself, such as dropout; one alone draws as it always did.
        own = (self.processes.rank,) if self.processes.count > 1 else ()
        with isolated_seed(self.seed, "epoch", self.epoch, *own, device=self.device):
            for step, pixels in enumerate(self.store.batches(indices)):
                losses[step] = self._train_step(
                    self.epoch * len(order) + step, config.epochs * len(order), pixels, labels[step], augmentation
                )
        self._agree(losses)
        self._require_finite(losses, checkpoint)
        self.epoch += 1
        if config.average_from < 1 and self.epoch > config.average_from * config.epochs:
            self.average.update()
        value = self._validate(checkpoint)
        if config.select == "last" or self.average.count == 1 or value < self.best_value:
            # The first averaged weights start a new competition: raw and averaged states are not compared.
            self.best_value, self.best_epoch = value, self.epoch
            self.best_net = {key: item.detach().clone() for key, item in self._candidate().items()}
            self.best_objective = {key: item.detach().clone() for key, item in self.objective.state_dict().items()}
        figures = {"epoch": float(self.epoch), "loss": float(losses.mean()), "held_out_loss": value}
        self.history.append(figures)
        return figures

    def _train_step(
        self, step: int, total: int, pixels: torch.Tensor, labels: torch.Tensor, augmentation: torch.Generator
    ) -> torch.Tensor:
        config = self.config
        factor = learning_rate_factor(config.schedule, step, total, milestones=config.milestones, decay=config.decay)
        self._step, self._total = step, total
        return self.gradient_step(pixels, labels, rates=[config.learning_rate * factor], generator=augmentation)

    @property
    def _fades(self) -> bool:
        return self.config.cross_entropy_until < 1 and self.config.metric_weight > 0

    def _batch_loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        fade = max(0.0, 1 - self._step / max(self._total * self.config.cross_entropy_until, 1)) if self._fades else 1.0
        z = self._forward(images)
        with torch.autocast(self.device.type, enabled=False):
            loss: torch.Tensor = self.objective(z.float(), labels, fade)
        return loss

    def _agree(self, losses: torch.Tensor) -> None:
        """Add up the processes' shares of the losses, and average the batch-norm statistics that each has."""
        if self.processes.count == 1:
            return
        add_up([losses])
        statistics = [value for value in self.net.buffers() if value.is_floating_point()]
        add_up(statistics)
        for value in statistics:
            value.div_(self.processes.count)

    def _candidate(self) -> dict[str, torch.Tensor]:
        return self.average.mean if self.average.count else self.net.state_dict()

    def _held_out_features(self, state: dict[str, torch.Tensor]) -> torch.Tensor:
        self.net.eval()
        # In training's own precision: float32 would take several times as long and choose the same epoch.
        with torch.no_grad(), autocast(self.device, self.dtype):
            return torch.cat(
                [
                    functional_call(self.net, state, (self.store.batch(chunk),)).float()
                    for chunk in self.held_out_indices.split(self.config.batch_size)
                ]
            )

    def _validate(self, checkpoint: Path | None) -> float:
        """The criterion on the held-out images; ends the run when their features have collapsed."""
        z = self._held_out_features(self._candidate())
        labels = self.labels[self.held_out_indices].to(self.device)
        if not torch.isfinite(z).all():
            where = f"the features of the held-out images are not finite after epoch {self.epoch}"
            raise TrainingDivergedError(self._diverged(where, checkpoint))
        require_spread(feature_spread(z[:_LARGEST_VALIDATION_BATCH], labels[:_LARGEST_VALIDATION_BATCH]), self.epoch)
        parts = list(zip(z.split(_LARGEST_VALIDATION_BATCH), labels.split(_LARGEST_VALIDATION_BATCH), strict=True))
        with torch.no_grad():
            values = [len(y) * self.objective.criterion(part, y, self.config.temperature) for part, y in parts]
        return from_first(float(torch.stack(values).sum() / len(z)), self.device)

    def _require_finite(self, losses: torch.Tensor, checkpoint: Path | None) -> None:
        bad = torch.nonzero(~torch.isfinite(losses)).flatten()
        if len(bad):
            where = f"the loss became {float(losses[bad[0]])} at epoch {self.epoch + 1}, step {int(bad[0]) + 1}"
            raise TrainingDivergedError(self._diverged(f"{where} of {len(losses)}", checkpoint))

    def _diverged(self, what: str, checkpoint: Path | None) -> str:
        kept = ""
        if checkpoint is not None and checkpoint.exists():
            kept = (
                f" The last good state stays in {checkpoint}; other settings start anew once {checkpoint.parent} is "
                f"deleted."
            )
        return (
            f"training diverged: {what}. Lower --learning-rate (it was {self.config.learning_rate}), or choose "
            f"--features.precision float32.{kept}"
        )

    def finish(self) -> TrainedFeatures:
        """Put the selected state into the network and report on it."""
        self.net.load_state_dict(self.best_net)
        self.objective.load_state_dict(self.best_objective)
        self.net.eval()
        self.objective.eval()
        z = self._held_out_features(self.net.state_dict())[:_LARGEST_VALIDATION_BATCH]
        labels = self.labels[self.held_out_indices][:_LARGEST_VALIDATION_BATCH]
        metric = self.config.metric_weight > 0
        counts = torch.bincount(labels, minlength=self.num_classes).tolist()
        report = FeatureReport(
            criterion="pairwise metric loss" if metric else "cross entropy",
            selected_epoch=self.best_epoch,
            held_out_loss=self.best_value,
            bound=pairwise_metric_loss_bound(counts, self.config.temperature) if metric else 0.0,
            spread=feature_spread(z, labels.to(self.device)),
            history=tuple(self.history),
        )
        return TrainedFeatures(self.net, self.objective, report)
