"""Stage 1: train f_θ on the pooled sources, select on a held-out part of them, survive being killed."""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.data.dataset import DomainDataset
from homefold.errors import ConfigError, FeatureCollapseError, TrainingDivergedError
from homefold.features.averaging import FinishedRuns
from homefold.features.backbone_learning import (
    backbone_groups,
    freeze_batch_norm,
    frozen_first_blocks,
    learns_as_the_head,
    starting_point,
)
from homefold.features.collapse import FeatureSpread
from homefold.features.config import FeatureConfig
from homefold.features.loop import Batch, ParameterGroup, TrainingRun, complete_run, go_on_from
from homefold.features.loss import pairwise_metric_loss_bound
from homefold.features.network import FeatureNet
from homefold.features.objective import Objective
from homefold.features.pair_emphasis import PairEmphasis
from homefold.features.starting_point import StartingPoint
from homefold.features.style_variation import varied_styles
from homefold.progress import ProgressReporter, SilentReporter
from homefold.seeding import derive_seed, isolated_seed

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
            pair_emphasis=PairEmphasis(cross_domain=config.cross_domain_weight, hardness=config.hard_pairs),
            agreement_weight=config.agreement_weight,
            agreement_temperature=config.agreement_temperature,
        )
    if objective_state is not None:
        objective.load_state_dict(objective_state)
    net.to(device)
    objective.to(device)
    if config.runs == 1:
        with varied_styles(config, net, device, dataset.image_size), frozen_first_blocks(config, net.backbone):
            run = _FeatureRun(config, net, objective, dataset, train, held_out, seed, device)
            complete_run(run, checkpoint=checkpoint, reporter=reporter, on_epoch=on_epoch)
        return run.finish()
    finished = FinishedRuns(net, objective)
    if checkpoint is not None and checkpoint.exists():
        go_on_from(checkpoint, lambda state: finished.load_state_dict(_finished_in(state, config)))
    start, objective_start = _copy_of(net), _copy_of(objective)
    with varied_styles(config, net, device, dataset.image_size), frozen_first_blocks(config, net.backbone):
        while True:
            net.load_state_dict(start)
            objective.load_state_dict(objective_start)
            number = finished.count + 1
            own_seed = derive_seed(seed, "run", finished.count) if finished.count else seed
            run = _FeatureRun(config, net, objective, dataset, train, held_out, own_seed, device)
            run.finished = finished
            title = f"Features {number}/{config.runs}"
            complete_run(run, checkpoint=checkpoint, reporter=reporter, on_epoch=on_epoch, title=title)
            run.load_best()
            finished.add(run.history, run.best_value)
            if number == config.runs:
                return run.finish_all(reporter or SilentReporter())
            # Its images and what it recorded on the device make room for those of the next.
            del run
            gc.collect()


def _copy_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: value.clone() for name, value in module.state_dict().items()}


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
    """Stage 1: f under the objective."""

    net: FeatureNet
    objective: Objective
    shares_batches = True
    start: StartingPoint | None = None
    """Where the backbone is pulled to, if it is."""
    finished: FinishedRuns | None = None
    """The runs before this one, whose weights this one's are averaged with; None where it is the only one."""

    def __init__(self, config: FeatureConfig, net: FeatureNet, *others: Any) -> None:
        super().__init__(config, net, *others)
        if config.pretrained_pull:
            self.start = starting_point(config, self.net.backbone)

    @property
    def recordable(self) -> bool:
        return not self._fades

    @property
    def _fades(self) -> bool:
        return self.config.cross_entropy_until < 1 and self.config.metric_weight > 0

    @cached_property
    def _forward(self) -> Callable[[torch.Tensor], torch.Tensor]:
        return torch.compile(self.net) if self.compiled else self.net

    def parameter_groups(self) -> list[ParameterGroup]:
        if learns_as_the_head(self.config):
            return super().parameter_groups()
        rest = ParameterGroup([*self.net.head.parameters(), *self.objective.parameters()])
        groups = [*backbone_groups(self.config, self.net.backbone), rest]
        learning = [group for group in groups if group.parameters]
        if not learning:
            raise ConfigError(
                "frozen_blocks leaves nothing that learns; freeze fewer blocks, or give the network a head."
            )
        return learning

    def epoch_start(self) -> None:
        if self.config.frozen_batch_norm:
            freeze_batch_norm(self.net.backbone)

    def batch_loss(self, batch: Batch) -> torch.Tensor:
        fade = 1.0
        if self._fades:
            fade = max(0.0, 1 - batch.step / max(batch.steps * self.config.cross_entropy_until, 1))
        z = self._forward(batch.images)
        with torch.autocast(self.device.type, enabled=False):
            loss = self.objective(z.float(), batch.labels, fade, batch.domains)
            return loss if self.start is None else loss + self._pull(self.start)

    def _pull(self, start: StartingPoint) -> torch.Tensor:
        """Zero, with the gradient of the pull to the start: like weight decay it is no part of the loss that is told.

        Among several processes, this one's share.
        """
        penalty = self.config.pretrained_pull / self.processes.count * start.distance()
        return penalty - penalty.detach()

    def state(self) -> dict[str, Any]:
        state = super().state()
        if self.finished is not None:
            state["finished"] = self.finished.state_dict()
        return state if self.start is None else {**state, "start": self.start.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        before = _finished_in(state, self.config)
        if self.finished is not None and before["count"] != self.finished.count:
            # The last state of the run before this one.
            return
        super().restore(state)
        if self.start is not None:
            self.start.load_state_dict(state["start"])

    def criterion(self, z: torch.Tensor, scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return self.objective.criterion(z, labels)

    def finish(self) -> TrainedFeatures:
        """Put the selected state into the network and report on it."""
        return self._report(self.put_back_best(), tuple(self.history))

    def train_epoch(self, checkpoint: Path | None) -> dict[str, float]:
        figures = super().train_epoch(checkpoint)
        if self.finished is not None:
            figures["run"] = float(self.finished.count + 1)
        return figures

    def finish_all(self, reporter: ProgressReporter) -> TrainedFeatures:
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
                f"ended too far from each other. Train with --features.runs 1, or at a lower --learning-rate."
            ) from error
        worst = max(self.finished.values)
        if self.best_value > worst:
            reporter.message(
                f"The mean of {self.config.runs} runs has a held-out loss of {self.best_value:.4f}, each run at most "
                f"{worst:.4f}; one run (--features.runs 1) may be better here."
            )
        return self._report(self.put_back_best(), tuple(self.finished.history))

    @torch.no_grad()
    def _pair_logit(self) -> tuple[float, float]:
        """τ and bias of the selected state."""
        return float(self.objective.pair_temperature()), float(self.objective.bias)

    def _report(self, spread: FeatureSpread, history: tuple[dict[str, float], ...]) -> TrainedFeatures:
        metric = self.config.metric_weight > 0
        counts = torch.bincount(self.held_out_labels(), minlength=self.num_classes).tolist()
        report = FeatureReport(
            criterion="pairwise metric loss" if metric else "cross entropy",
            selected_epoch=self.best_epoch,
            held_out_loss=self.best_value,
            bound=pairwise_metric_loss_bound(counts, *self._pair_logit()) if metric else 0.0,
            spread=spread,
            history=history,
        )
        return TrainedFeatures(self.net, self.objective, report)
