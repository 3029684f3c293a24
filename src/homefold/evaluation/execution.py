"""Doing runs: train on the source, answer for the target, keep the artifact, then the record."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch
from torch import nn

from homefold.config import config_to_dict
from homefold.data.dataset import DomainDataset
from homefold.errors import HomefoldError
from homefold.evaluation.artifacts import artifact_arrays, artifact_path, history_arrays, write_artifact
from homefold.evaluation.planning import BenchData, Planner, Run, Unit
from homefold.evaluation.protocols import source_dataset
from homefold.evaluation.records import Ledger, RunRecord, require_recordable
from homefold.methods import Answers, ImageSet, TrainedMethod, TrainingTask
from homefold.runtime.allocation import give_back_device_memory
from homefold.runtime.device import resolve_device
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.provenance import code_commit, hardware, versions
from homefold.stages.predictions import Predictions
from homefold.store.files import plain_json
from homefold.store.stage_store import StageStore

__all__ = ["Executor", "count_parameters", "failed_record"]

_MOST_TARGETS_WITH_FEATURES = 20
_WARM_UP_IMAGES = 64


Keep = Callable[[str, dict[str, np.ndarray]], None]
"""Keeps the arrays of the run with this id."""


@dataclass
class _Shared:
    """What runs of the same training share: the trained method, and the scores that a selection rule looks at."""

    method: TrainedMethod | None = None
    scores: dict[str, dict[str, float | None]] | None = None


class Executor:
    """Does runs in this process, each from its training to its record.

    Args:
        planner: that planned them.
        reporter: is told what each stage does.
        keep: is given what a run kept for pictures, before its record; files beside the records by default.
    """

    def __init__(self, planner: Planner, reporter: ProgressReporter | None = None, keep: Keep | None = None) -> None:
        self.planner, self.options = planner, planner.options
        self.device = resolve_device(self.options.device)
        self.reporter = reporter or SilentReporter()
        self.store = StageStore(self.options.out / "stages")
        self.keep = keep or (lambda run, arrays: write_artifact(artifact_path(self.options.out, run), arrays))
        # The first images on a GPU also wait for its kernels to load, which no later image does.
        self.warm_up_images = _WARM_UP_IMAGES if self.device.type == "cuda" else 0

    def record_unit(self, unit: Unit, ledger: Ledger) -> Iterator[tuple[Run, RunRecord]]:
        """Do all runs of a unit, one record each, already written when it is yielded.

        What another process is doing comes last, and is waited for.
        """
        elsewhere: list[Run] = []
        for wait, runs in ((False, unit), (True, elsewhere)):
            for sharing in self._sharing(runs):
                with self._shared() as shared:
                    for run in sharing:
                        record = ledger.once(run.id, partial(self._timed, run, shared), wait=wait)
                        if record is None:
                            elsewhere.append(run)
                        else:
                            yield run, record

    def do_unit(self, unit: Unit) -> Iterator[tuple[Run, RunRecord]]:
        """Do all runs of a unit, whoever claimed them and will write their records."""
        for sharing in self._sharing(unit):
            with self._shared() as shared:
                for run in sharing:
                    yield run, self._timed(run, shared)

    @contextmanager
    def _shared(self) -> Iterator[_Shared]:
        """For the runs of one training, whose memory goes back after them."""
        shared = _Shared()
        try:
            yield shared
        finally:
            shared.method = None
            give_back_device_memory(self.device)

    def _sharing(self, runs: Sequence[Run]) -> Iterator[list[Run]]:
        """Runs of one training, which differ in their target."""
        for _, sharing in groupby(runs, key=lambda run: (run.method_name, run.variation.name, run.candidate)):
            yield list(sharing)

    def _timed(self, run: Run, shared: _Shared) -> RunRecord:
        began = time.perf_counter()
        record = self._do(run, shared)
        return replace(record, seconds={**record.seconds, "run": time.perf_counter() - began})

    def _do(self, run: Run, shared: _Shared) -> RunRecord:
        """Try the run; whatever goes wrong becomes a record of its failure."""
        self.reporter.message(run.title)
        try:
            record = self._finished(run, shared)
            require_recordable(record)
            return record
        except HomefoldError as error:
            return failed_record(self.planner, run, str(error), self.device)
        except OSError:
            raise  # a full disk or a closed pipe would fail every other run too
        except Exception as error:  # a defect of one method must not end a night of runs
            return failed_record(self.planner, run, f"{type(error).__name__}: {error}", self.device)

    def _finished(self, run: Run, shared: _Shared) -> RunRecord:
        data = self.planner.data(run.config)
        method = self._trained(run, data, shared)
        target = data.dataset.subset(run.target.indices)
        answers = self._ask(method, data, run.target.indices)
        self._keep(run, data, method, answers, target)
        projected, before = answers.projected is not None, answers.before
        facts: dict[str, Any] = {
            **run.target.facts,
            **run.variation.facts,
            **method.facts(),
            "held_out": _held_out_rule(data, run),
            "mean_iterations": float(answers.predictions.iterations.mean()) if projected else None,
            "accuracy_before_projection": None if before is None else _accuracy(before, target.labels),
            "stages": {stage.id.name: {"seconds": stage.seconds} for stage in method.stages},
            "parameters": count_parameters(method.networks()),
        }
        if run.candidate is not None:
            shared.scores = shared.scores or self._scores(run, data, method)
            facts["candidate"] = {**asdict(run.candidate), "scores": shared.scores}
        return replace(
            _blank_record(self.planner, run, self.device),
            accuracy=_accuracy(answers.predictions, target.labels),
            facts=plain_json({**_common_facts(self.planner, run), **facts}),
            seconds={
                "training": method.training_seconds,
                "inference_per_image": answers.seconds / max(1, len(target)),
            },
        )

    def _trained(self, run: Run, data: BenchData, shared: _Shared) -> TrainedMethod:
        if shared.method is None:
            shared.method = run.method.train(self._task(run, data))
            if self.warm_up_images:  # before any time is taken; what that taught is forgotten before the target
                self._ask(shared.method, data, run.target.indices[: self.warm_up_images])
        return shared.method

    def _task(self, run: Run, data: BenchData, others: np.ndarray | None = None) -> TrainingTask:
        """A training on the run's source, or on its images at `others`; nothing else can be reached from it."""
        source, adapt = (run.split.source, run.split.adapt) if others is None else (others, None)
        few = adapt is not None and len(adapt) > 0
        return TrainingTask(
            key=data.task_key(source, run.config, adapt),
            source=source_dataset(data.dataset, source),
            device=self.device,
            stages=self.store,
            reporter=self.reporter,
            adapt=source_dataset(data.dataset, adapt) if few else None,  # type: ignore[arg-type]
        )

    def _ask(self, method: TrainedMethod, data: BenchData, indices: np.ndarray) -> Answers:
        method.reset()
        return method.answer(ImageSet(data.dataset.images[indices], data.keys.of_images(indices)))

    def _scores(self, run: Run, data: BenchData, method: TrainedMethod) -> dict[str, dict[str, float | None]]:
        """The accuracies that selection rules look at, by rule and domain: none of them needs the target.

        Leaving out each source in turn costs trainings, and is done only for the rule of that name; a training that
        fails has no accuracy.
        """
        held_out = run.split.source[self._task(run, data).split[1]]
        scores: dict[str, dict[str, float | None]] = {
            "source-validation": {name: self._score(method, data, own) for name, own in _by_domain(data, held_out)}
        }
        if self.options.selection == "leave-one-source-out":
            scores[self.options.selection] = {
                name: self._left_out(run, data, others, own)
                for name, (others, own) in self.planner.all_but_one(run).items()
            }
        return scores

    def _left_out(self, run: Run, data: BenchData, others: np.ndarray, own: np.ndarray) -> float | None:
        try:
            return self._score(run.method.train(self._task(run, data, others)), data, own)
        except HomefoldError:
            return None

    def _score(self, method: TrainedMethod, data: BenchData, indices: np.ndarray) -> float:
        return _accuracy(self._ask(method, data, indices).predictions, data.dataset.labels[indices])

    def _keep(self, run: Run, data: BenchData, method: TrainedMethod, answers: Answers, target: DomainDataset) -> None:
        with_features = run.candidate is None and len(run.split.targets) <= _MOST_TARGETS_WITH_FEATURES
        arrays = artifact_arrays(
            answers,
            source_dataset(data.dataset, run.split.source),
            method.source_features() if with_features else None,
            target,
            seed=run.seed,
        )
        self.keep(run.id, arrays | history_arrays(method.stages))


def _by_domain(data: BenchData, indices: np.ndarray) -> list[tuple[str, np.ndarray]]:
    domains = data.dataset.domains[indices]
    return [(data.dataset.domain_names[index], indices[domains == index]) for index in np.unique(domains)]


def _accuracy(predictions: Predictions, labels: np.ndarray) -> float:
    return float((predictions.indices == labels).mean())


def count_parameters(networks: Sequence[nn.Module]) -> int | None:
    """How many numbers were learned in all; None where a method does not say which networks it has."""
    return sum(values.numel() for network in networks for values in network.parameters()) or None


def _held_out_rule(data: BenchData, run: Run) -> str:
    splits = data.dataset.splits
    if splits and any(splits[index] == "val" for index in run.split.source):
        return "the official validation images of the sources"
    return f"{run.config.features.held_out:.0%} of each source domain and class, drawn with the seed"


def _common_facts(planner: Planner, run: Run) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "split": run.split.name,
        **run.split.facts,
        "variation": run.variation.name,
        "method": run.method.settings(),
        "source_images": len(run.split.source),
    }
    for name in ("images_per_class", "source_images_per_class"):
        if count := getattr(planner.options, name):
            facts[name] = count
    if run.candidate is not None:
        facts["candidate"] = asdict(run.candidate)
    return facts | run.facts_of_own_code


def _blank_record(planner: Planner, run: Run, device: torch.device) -> RunRecord:
    return RunRecord(
        **planner.described(run) | {"facts": {}},
        accuracy=None,
        images=len(run.target.indices),
        config=plain_json(config_to_dict(run.config)),
        hardware=hardware(device),
        versions=versions(),
        commit=code_commit(),
    )


def failed_record(planner: Planner, run: Run, error: str, device: torch.device) -> RunRecord:
    """The record of a run that came to nothing, and why."""
    facts = {**_common_facts(planner, run), **run.target.facts, **run.variation.facts}
    return replace(_blank_record(planner, run, device), status="failed", error=error, facts=plain_json(facts))
