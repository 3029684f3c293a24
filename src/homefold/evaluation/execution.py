"""Doing runs: train on the source, answer for the target, keep the artifact, then the record."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

import numpy as np
import torch

from homefold.config import HomefoldConfig, config_to_dict
from homefold.data.dataset import DomainDataset
from homefold.errors import HomefoldError
from homefold.evaluation.artifacts import artifact_arrays, artifact_path, write_artifact
from homefold.evaluation.planning import BenchData, Planner, Run, Unit, records_path
from homefold.evaluation.protocols import source_dataset
from homefold.evaluation.records import Ledger, RunRecord, require_recordable
from homefold.evaluation.selection import Candidate, Choice, choose
from homefold.methods import Answers, ImageSet, TrainedMethod, TrainingTask
from homefold.runtime.device import resolve_device
from homefold.runtime.progress import ProgressReporter, SilentReporter
from homefold.runtime.provenance import code_commit, hardware, versions
from homefold.stages.predictions import Predictions
from homefold.store.files import plain_json
from homefold.store.stage_store import StageStore

__all__ = ["Executor", "failed_record"]

_MOST_TARGETS_WITH_FEATURES = 20
_WARM_UP_IMAGES = 64


class Executor:
    """Does the runs of a plan in this process; `known` is that of its `Ledger`."""

    def __init__(self, planner: Planner, reporter: ProgressReporter | None = None, known: int | None = None) -> None:
        self.planner, self.options = planner, planner.options
        self.ledger = Ledger(records_path(self.options.out), known)
        self.device = resolve_device(self.options.device)
        self.reporter = reporter or SilentReporter()
        self.store = StageStore(self.options.out / "stages")
        # The first images on a GPU also wait for its kernels to load, which no later image does.
        self.warm_up_images = _WARM_UP_IMAGES if self.device.type == "cuda" else 0

    def do_unit(self, unit: Unit) -> Iterator[tuple[Run, RunRecord]]:
        """Do all runs of a unit, one record each, already written when it is yielded.

        What another process is doing comes last, and is waited for.
        """
        elsewhere: list[Run] = []
        for wait, runs in ((False, unit), (True, elsewhere)):
            for _, sharing in groupby(runs, key=lambda run: (run.method_name, run.variation.name)):
                trained: dict[str, TrainedMethod] = {}
                for run in sharing:
                    record = self.ledger.once(run.id, partial(self._timed, run, trained), wait=wait)
                    if record is None:
                        elsewhere.append(run)
                    else:
                        yield run, record

    def _timed(self, run: Run, trained: dict[str, TrainedMethod]) -> RunRecord:
        began = time.perf_counter()
        record = self._do(run, trained)
        return replace(record, seconds={**record.seconds, "run": time.perf_counter() - began})

    def _do(self, run: Run, trained: dict[str, TrainedMethod]) -> RunRecord:
        """Try the run; whatever goes wrong becomes a record of its failure.

        `trained` holds what the same method was trained to before, by chosen settings, for other targets.
        """
        self.reporter.message(run.title)
        try:
            record = self._finished(run, trained)
            require_recordable(record)
            return record
        except HomefoldError as error:
            return failed_record(self.planner, run, str(error), self.device)
        except OSError:
            raise  # a full disk or a closed pipe would fail every other run too
        except Exception as error:  # a defect of one method must not end a night of runs
            return failed_record(self.planner, run, f"{type(error).__name__}: {error}", self.device)

    def _finished(self, run: Run, trained: dict[str, TrainedMethod]) -> RunRecord:
        data = self.planner.data(run.config)
        choice = self._choose(run, data)
        candidate = choice.candidate if choice else run.candidates[0]
        if candidate.settings not in trained:
            trained[candidate.settings] = run.method.train(self._task(run, data, candidate.config))
            if self.warm_up_images:  # before any time is taken; what that taught is forgotten before the target
                self._ask(trained[candidate.settings], data, run.target.indices[: self.warm_up_images])
        method = trained[candidate.settings]
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
        }
        if choice is not None:
            facts["selection"] = choice.as_dict()
        return replace(
            _blank_record(self.planner, run, candidate.config, self.device),
            accuracy=_accuracy(answers.predictions, target.labels),
            facts=plain_json({**_common_facts(self.planner, run), **facts}),
            seconds={
                "training": method.training_seconds,
                "inference_per_image": answers.seconds / max(1, len(target)),
            },
        )

    def _task(
        self, run: Run, data: BenchData, config: HomefoldConfig, others: np.ndarray | None = None
    ) -> TrainingTask:
        """A training on the run's source, or on its images at `others`; nothing else can be reached from it."""
        source, adapt = (run.split.source, run.split.adapt) if others is None else (others, None)
        few = adapt is not None and len(adapt) > 0
        return TrainingTask(
            key=data.task_key(source, config, adapt),
            source=source_dataset(data.dataset, source),
            device=self.device,
            stages=self.store,
            reporter=self.reporter,
            adapt=source_dataset(data.dataset, adapt) if few else None,  # type: ignore[arg-type]
        )

    def _ask(self, method: TrainedMethod, data: BenchData, indices: np.ndarray) -> Answers:
        method.reset()
        return method.answer(ImageSet(data.dataset.images[indices], data.keys.of_images(indices)))

    def _choose(self, run: Run, data: BenchData) -> Choice | None:
        if len(run.candidates) == 1:
            return None
        judges: Mapping[str, tuple[np.ndarray | None, np.ndarray]] = {run.target.name: (None, run.target.indices)}
        if self.options.selection != "oracle":
            judges = self.planner.all_but_one(run)

        def score(candidate: Candidate, name: str) -> float:
            source, own = judges[name]
            method = run.method.train(self._task(run, data, candidate.config, source))
            return _accuracy(self._ask(method, data, own).predictions, data.dataset.labels[own])

        return choose(run.candidates, list(judges), score)

    def _keep(self, run: Run, data: BenchData, method: TrainedMethod, answers: Answers, target: DomainDataset) -> None:
        few_targets = len(run.split.targets) <= _MOST_TARGETS_WITH_FEATURES
        arrays = artifact_arrays(
            answers,
            source_dataset(data.dataset, run.split.source),
            method.source_features() if few_targets else None,
            target,
            seed=run.seed,
        )
        write_artifact(artifact_path(self.options.out, run.id), arrays)


def _accuracy(predictions: Predictions, labels: np.ndarray) -> float:
    return float((predictions.indices == labels).mean())


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
    return facts | run.facts_of_own_code


def _blank_record(planner: Planner, run: Run, config: HomefoldConfig, device: torch.device) -> RunRecord:
    return RunRecord(
        **planner.described(run) | {"facts": {}},
        accuracy=None,
        images=len(run.target.indices),
        config=plain_json(config_to_dict(config)),
        hardware=hardware(device),
        versions=versions(),
        commit=code_commit(),
    )


def failed_record(planner: Planner, run: Run, error: str, device: torch.device) -> RunRecord:
    """The record of a run that came to nothing, and why."""
    facts = {**_common_facts(planner, run), **run.target.facts, **run.variation.facts}
    return replace(
        _blank_record(planner, run, run.config, device), status="failed", error=error, facts=plain_json(facts)
    )
