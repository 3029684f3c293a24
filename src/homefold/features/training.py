"""Stage 1: train f_θ on the pooled sources, select on a held-out part of them, survive being killed."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.config.backbones import BACKBONES
from homefold.config.features import FeatureConfig
from homefold.data.dataset import DomainDataset
from homefold.errors import ConfigError, FeatureCollapseError, TrainingDivergedError
from homefold.features.adapters import adapted
from homefold.features.averaging import FinishedRuns
from homefold.features.batches import FeatureStore
from homefold.features.collapse import FeatureSpread, metric_advice
from homefold.features.frozen import backbone_features
from homefold.features.loop import Batch, TrainingRun, complete_run, go_on_from
from homefold.features.loss import pairwise_metric_loss_bound
from homefold.features.mix_style import mixed_styles
from homefold.features.network import FeatureNet
from homefold.features.objective import Objective
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.seeding import derive_seed, isolated_seed
from homefold.store.files import read_state

__all__ = ["FeatureReport", "TrainedFeatures", "train_features"]


@dataclass(frozen=True)
class FeatureReport:
    """What stage 1 ended with.

    Args:
        criterion: what selection looked at: `pairwise metric loss` or `cross entropy`, on held-out source images.
        selected_epoch: the epoch whose weights were kept, from 1; with several runs, in the last of them.
        held_out_loss: the criterion there.
        bound: about the least value L_A can take there; 0 for cross entropy.
        spread: how the held-out features lie.
        history: one entry an epoch: `epoch`, `loss`, `held_out_loss`; with several runs, one run after the other,
            each entry with its `run`, from 1.
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
    """Train `net`, or its head alone, on `dataset[train]`, keeping the state that does best on `dataset[held_out]`.

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
        )
    if objective_state is not None:
        objective.load_state_dict(objective_state)
    if config.adapter_rank:
        config.require_consistent()
    with adapted(net.backbone, config.adapter_rank, dataset.image_size, seed):
        return _train(config, net, objective, dataset, train, held_out, seed, device, checkpoint, reporter, on_epoch)


def _train(
    config: FeatureConfig,
    net: FeatureNet,
    objective: Objective,
    dataset: DomainDataset,
    train: np.ndarray,
    held_out: np.ndarray,
    seed: int,
    device: torch.device,
    checkpoint: Path | None,
    reporter: ProgressReporter | None,
    on_epoch: Callable[[dict[str, float]], None] | None,
) -> TrainedFeatures:
    """One training of it all, or several whose weights are averaged."""
    net.to(device)
    objective.to(device)
    learning: nn.Module = net
    store = None
    if config.freeze == "backbone":
        config.require_consistent()
        learning, store = net.head, _frozen_store(config, net, dataset.images, device, checkpoint, reporter)

    def begin(own_seed: int) -> _FeatureRun:
        return _FeatureRun(config, learning, objective, dataset, train, held_out, own_seed, device, store)

    complete = partial(complete_run, checkpoint=checkpoint, reporter=reporter, on_epoch=on_epoch)
    with mixed_styles(config, net, device, dataset.image_size):
        if config.runs == 1:
            run = begin(seed)
            complete(run)
            return TrainedFeatures(net, objective, run.report(run.history))
        finished = FinishedRuns(learning, objective)
        if checkpoint is not None and checkpoint.exists():
            go_on_from(checkpoint, lambda state: finished.load_state_dict(_finished_in(state, config)))
        start = copy.deepcopy((learning.state_dict(), objective.state_dict()))
        while True:
            for module, weights in zip((learning, objective), start, strict=True):
                module.load_state_dict(weights)
            number = finished.count + 1
            run = begin(derive_seed(seed, "run", finished.count) if finished.count else seed)
            run.finished = finished
            complete(run, title=f"Features {number}/{config.runs}")
            run.load_best()
            finished.add(run.history, run.best_value)
            if number == config.runs:
                return TrainedFeatures(net, objective, run.finish_all(reporter or SilentReporter()))
            # Its images and what it captured on the device make room for those of the next.
            del run
            gc.collect()


def _frozen_store(
    config: FeatureConfig,
    net: FeatureNet,
    images: np.ndarray,
    device: torch.device,
    checkpoint: Path | None,
    reporter: ProgressReporter | None,
) -> FeatureStore:
    """What the backbone makes of all images, in eval mode: from the checkpoint if there is one, or by the cache."""
    net.to(memory_format=torch.channels_last).eval()
    kept = read_state(checkpoint).get("frozen") if checkpoint is not None and checkpoint.exists() else None
    if kept is not None:
        return FeatureStore(kept.to(device))
    reporter = reporter or SilentReporter()
    if config.weights == "none" and config.backbone in BACKBONES:
        reporter.message(
            "The frozen backbone has random weights, since features.weights is none: the head has little to learn from."
        )
    return FeatureStore(backbone_features(net, images, device, reporter))


def _finished_in(state: dict[str, Any], config: FeatureConfig) -> dict[str, Any]:
    """What a checkpoint says of the runs before its own; empty where there is but one run."""
    found: dict[str, Any] = state.get("finished", {})
    if bool(found) != (config.runs > 1):
        raise ConfigError(
            f"the checkpoint is of a training with {'several runs' if found else 'one run'}, and runs is now "
            f"{config.runs}; go on with the settings it was begun with, or delete it."
        )
    return found


class _FeatureRun(TrainingRun):
    """Stage 1: f, or its head on the features of a frozen backbone, under the objective."""

    objective: Objective
    shares_batches = True
    capturable = True
    finished: FinishedRuns | None = None
    """The runs before this one, whose weights this one's are averaged with; None where it is the only one."""

    @property
    def collapse_advice(self) -> str:
        return metric_advice(
            has_head=self.config.head != "none",
            has_cross_entropy=self.config.cross_entropy_weight > 0,
            learning_rate=self.config.learning_rate,
        )

    @cached_property
    def _forward(self) -> Callable[[torch.Tensor], torch.Tensor]:
        return torch.compile(self.net) if self.compiled else self.net

    def batch_loss(self, batch: Batch) -> torch.Tensor:
        z = self._forward(batch.images)
        with torch.autocast(self.device.type, enabled=False):
            loss: torch.Tensor = self.objective(z.float(), batch.labels)
            return loss

    def state(self) -> dict[str, Any]:
        state = super().state()
        if self.finished is not None:
            state["finished"] = self.finished.state_dict()
        if isinstance(self.store, FeatureStore):
            state["frozen"] = self.store.features
        return state

    def restore(self, state: dict[str, Any]) -> None:
        before = _finished_in(state, self.config)
        if ("frozen" in state) != isinstance(self.store, FeatureStore):
            raise ConfigError(
                f"the checkpoint is of a training with another freeze, and freeze is now {self.config.freeze}; go on "
                f"with the settings it was begun with, or delete it."
            )
        if self.finished is not None and before["count"] != self.finished.count:
            # The last state of the run before this one.
            return
        super().restore(state)

    def criterion(self, z: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.objective.criterion(z, labels)

    def train_epoch(self, checkpoint: Path | None) -> dict[str, float]:
        figures = super().train_epoch(checkpoint)
        if self.finished is not None:
            figures["run"] = float(self.finished.count + 1)
        return figures

    def finish_all(self, reporter: ProgressReporter) -> FeatureReport:
        """Put the mean of all runs into the network, take its batch-norm statistics, and report on it."""
        assert self.finished is not None
        self.finished.put_back()
        self.renew_statistics()
        self.best_net, self.best_objective = self.net.state_dict(), self.objective.state_dict()
        try:
            self.best_value = self.held_out_value(self.best_net)
        except (FeatureCollapseError, TrainingDivergedError) as error:
            raise type(error)(
                f"the mean of {self.config.runs} runs' weights tells nothing apart any more, though each run did: they "
                f"ended too far from each other. Train with features.runs=1, or at a lower features.learning_rate."
            ) from error
        worst = max(self.finished.values)
        if self.best_value > worst:
            reporter.message(
                f"The mean of {self.config.runs} runs has a held-out loss of {self.best_value:.4f}, each run at most "
                f"{worst:.4f}; one run (features.runs=1) may be better here."
            )
        return self.report(self.finished.history)

    def report(self, history: list[dict[str, float]]) -> FeatureReport:
        """Put the selected state into the network and report on it."""
        metric = self.config.metric_weight > 0
        counts = torch.bincount(self.held_out_labels(), minlength=self.num_classes).tolist()
        return FeatureReport(
            criterion="pairwise metric loss" if metric else "cross entropy",
            selected_epoch=self.best_epoch,
            held_out_loss=self.best_value,
            bound=pairwise_metric_loss_bound(counts, self.config.temperature) if metric else 0.0,
            spread=self.put_back_best(),
            history=tuple(history),
        )
