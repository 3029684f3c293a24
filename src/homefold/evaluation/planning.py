"""From what is asked for to the list of runs, before any training: what there is to do, and what is done already."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from homefold.config import HomefoldConfig, config_to_dict, replace_settings
from homefold.config.grammar import with_settings
from homefold.config.manifold import MANIFOLDS
from homefold.data.dataset import DatasetKeys, DomainDataset
from homefold.data.registry import list_datasets, load_dataset
from homefold.errors import ConfigError, DataError
from homefold.evaluation.candidates import Candidate, candidates_for
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.plan_file import NO_SIGNAL
from homefold.evaluation.presets import bench_config
from homefold.evaluation.protocols import EvaluationProtocol, LeaveOneDomainOut, Split, Target, few_of_each_class
from homefold.evaluation.records import RunRecord, read_records
from homefold.evaluation.selection import select_epoch
from homefold.evaluation.suites import SUITES, Suite, Variation
from homefold.features import build_backbone
from homefold.methods import Method, TaskKey, code_key, find_method
from homefold.methods.candidates import with_candidate
from homefold.methods.registry import METHODS, OURS, own_titles, recipe_followed, under_our_recipe
from homefold.runtime.code import joined_keys
from homefold.runtime.plugins import load_plugin
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.text import as_text
from homefold.stages.own_code import config_code
from homefold.store.files import digest
from homefold.store.stage_store import StageId, StageStore

__all__ = ["BenchData", "Plan", "Planner", "Run", "Unit", "finished_runs", "make_plan", "records_path"]

_VLCS_FRACTION = 0.7


class BenchData:
    """The dataset of a benchmark at one image size, and keys for its parts.

    It has all domains; only the parts that a split names as its source are ever handed to a training.
    """

    def __init__(self, dataset: DomainDataset) -> None:
        self.dataset, self.keys = dataset, DatasetKeys(dataset)

    def task_key(self, source: np.ndarray, config: HomefoldConfig, adapt: np.ndarray | None = None) -> TaskKey:
        """What identifies a training on the images at `source`, fine-tuned on those at `adapt` if there are any."""
        tuned = self.keys.of_labelled(adapt) if adapt is not None and len(adapt) else ""
        return TaskKey(self.keys.of_labelled(source), config, tuned)


@dataclass(frozen=True, eq=False)
class Run:
    """One method trained once and tested on one target: one record.

    Args:
        id: stands for everything that decides its result.
        method_name: as it was asked for.
        method: with the variation's hyper-parameters, and the candidate's.
        candidate: the settings that are tried, where a selection rule chooses among several.
        config: all its settings.
    """

    id: str
    method_name: str
    method: Method
    variation: Variation
    candidate: Candidate | None
    backbone: str
    seed: int
    split: Split
    target: Target
    config: HomefoldConfig

    @property
    def facts_of_own_code(self) -> dict[str, Any]:
        """What stands for code that is not of this package, and the titles of methods that are not; else nothing."""
        titles = own_titles(self.method_name).items()
        code = _code(self.method, self.config)
        foreign = {name: title for name, title in titles if not METHODS[name].place.startswith("homefold.")}
        return {name: value for name, value in (("code", code), ("titles", foreign)) if value}

    @property
    def no_signal(self) -> str:
        """Why its method would train as Deep All under another name; empty where it would not."""
        return self.method.without_signal(*_seen_in(self.split)).partition(". ")[0]

    @property
    def title(self) -> str:
        """For people."""
        parts = [self.target.name, self.method_name, self.variation.name, self.backbone, f"seed {self.seed}"]
        parts += [] if self.candidate is None else [f"candidate {self.candidate.number}"]
        where = "" if self.split.name == self.target.name else f" ({self.split.name})"
        return " · ".join(part for part in parts if part) + where


def _code(method: Method, config: HomefoldConfig) -> str:
    """Stands for all code of plugins that a run needs; empty where it is this package's own."""
    return joined_keys([code_key(method), config_code(config)])


@dataclass(frozen=True, eq=False)
class _Trial:
    """A method as the suite varies it, with a candidate's settings: what every source and seed is tried with."""

    method_name: str
    method: Method
    variation: Variation
    candidate: Candidate | None
    config: HomefoldConfig


Unit = tuple[Run, ...]
"""Runs that share a source, a backbone, a seed and a candidate's number, so that they share trainings: one process does
them all."""


@dataclass(frozen=True, eq=False)
class Plan:
    """All runs, and what of them is done.

    Args:
        done: ids of the runs that have a record of success.
        failed: ids of the runs whose last record says that they failed; they are tried again.
        stages: every stage that all runs need, the candidates' of the selection rule included.
        trained: those of them that are there.
        selection: the selection rule, and what it chooses among.
        candidates: all of them by method.
        refused: runs that were asked for and will not be done, since their method has no signal in them.
    """

    suite: Suite
    dataset: str
    units: tuple[Unit, ...]
    done: frozenset[str]
    failed: frozenset[str]
    stages: tuple[StageId, ...]
    trained: frozenset[str]
    selection: str
    candidates: dict[str, list[str]]
    refused: tuple[Run, ...] = ()

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs in the order in which they will be done."""
        return tuple(run for unit in self.units for run in unit)

    @property
    def remaining(self) -> tuple[Run, ...]:
        """Those without a record of success."""
        return tuple(run for run in self.runs if run.id not in self.done)

    def remaining_units(self) -> tuple[Unit, ...]:
        """The units of what remains."""
        left = (tuple(run for run in unit if run.id not in self.done) for unit in self.units)
        return tuple(filter(None, left))

    def summary(self) -> dict[str, Any]:
        """Plain values: how many runs and trainings there are, and how many of each are done."""
        wanted = Counter(stage.kind for stage in self.stages)
        there = Counter(stage.kind for stage in self.stages if stage.digest in self.trained)
        ids = {run.id for run in self.runs}
        return {
            "suite": self.suite.name,
            "dataset": self.dataset,
            "protocol": self.suite.protocol.name,
            "description": self.suite.protocol.description,
            "runs": len(ids),
            "done": len(ids & self.done),
            "failed_before": len(ids & self.failed),
            "to_do": len(self.remaining),
            "selection": self.selection,
            "candidates": self.candidates,
            "trainings": {kind: {"needed": wanted[kind], "done": there[kind]} for kind in sorted(wanted)},
            "trainings_to_do": sum(wanted.values()) - sum(there.values()),
            "left_out": dict(Counter(run.no_signal for run in self.refused)),
        }


def records_path(out: Path | str) -> Path:
    """Where the records of a benchmark lie."""
    return Path(out) / "records.jsonl"


def finished_runs(out: Path | str) -> dict[str, RunRecord]:
    """The last record of each run."""
    path = records_path(out)
    return {record.run: record for record in read_records(path)} if path.exists() else {}


def _load(options: BenchOptions, config: HomefoldConfig, reporter: ProgressReporter | None = None) -> DomainDataset:
    """The dataset that is asked for, by name, as `name:path` or as a folder, at the size of the configuration."""
    data = options.data or SUITES[options.suite].dataset
    name, _, path = data.partition(":")
    is_named = path and name in {entry.name for entry in list_datasets()}
    side, resize = config.preprocessing.image_size, config.preprocessing.resize
    name, root = (name, path) if is_named else (data, None)
    how = options.domain_from
    return load_dataset(name, root=root, size=(side, side), resize=resize, reporter=reporter, domain_from=how)


def _first_of_each_class(dataset: DomainDataset, count: int) -> DomainDataset:
    """The first `count` images of each domain and class."""
    seen: Counter[tuple[int, int]] = Counter()
    kept = []
    for index, cell in enumerate(zip(dataset.domains.tolist(), dataset.labels.tolist(), strict=True)):
        if seen[cell] < count:
            kept.append(index)
        seen[cell] += 1
    return dataset.subset(kept)


class Planner:
    """Turns options into runs; a `dataset` that is in memory already takes the place of `options.data`."""

    def __init__(
        self, options: BenchOptions, dataset: DomainDataset | None = None, reporter: ProgressReporter | None = None
    ) -> None:
        self.options, self.suite, self._given, self._reporter = options, SUITES[options.suite], dataset, reporter
        self._data: dict[int, BenchData] = {}
        self._trials_made: dict[tuple[str, str], list[_Trial]] = {}
        for plugin in options.plugins:
            load_plugin(plugin)
        # Asked for, and not as with quick: the names then say so, as tables show names.
        named = under_our_recipe if options.recipe == OURS else str
        self.method_names = tuple(dict.fromkeys(map(named, options.methods or self.suite.methods)))
        self.backbones = options.backbones or self.suite.backbones_for(options.preset)
        self._methods = {
            (backbone, name): find_method(name, backbone, options.recipe_followed)
            for backbone in self.backbones
            for name in self.method_names
        }
        self._configs = {name: self._config(name) for name in self.backbones}
        self._own_configs = {
            (backbone, name): self._config(backbone, method) for (backbone, name), method in self._methods.items()
        }
        for backbone, config in self._configs.items():
            side = config.preprocessing.image_size
            build_backbone(backbone, config.features.weights, (side, side))  # complains before images are decoded
            self._check_methods(backbone, config.features.weights)

    def _config(self, backbone: str, method: Method | None = None) -> HomefoldConfig:
        """The settings that were asked for, as all methods share them or as one of them begins with them."""
        options, suite = self.options, self.suite
        config = bench_config(options.preset, backbone, weights=options.weights, elbow_search=suite.elbow_search)
        if options.preset == "paper":
            config = replace_settings(config, dict(suite.paper_settings))
        if method is not None:
            config = method.starting(config)
        config = with_settings(config, " ".join(options.settings))
        MANIFOLDS[config.manifold.kind]  # complains of a kind that does not exist, which methods may put aside
        return select_epoch(config, options.selection)

    def _check_methods(self, backbone: str, weights: str) -> None:
        """Complain of settings of one method, and of weights that it does not find, before images are decoded."""
        checked = {weights}
        for name in self.method_names:
            method = self._methods[backbone, name]
            config = method.configure(self._own_configs[backbone, name], self.options.preset)
            features, side = config.features, config.preprocessing.image_size
            if features.weights not in checked:
                build_backbone(features.backbone, features.weights, (side, side))
                checked.add(features.weights)

    def data(self, config: HomefoldConfig) -> BenchData:
        """The dataset at the configuration's image size, loaded once."""
        side = config.preprocessing.image_size
        if side not in self._data:
            dataset = self._given or _load(self.options, config, self._reporter)
            if dataset.image_size != (side, side):
                raise DataError(f"{dataset.name} has images of {dataset.image_size} px; {side} × {side} px are needed.")
            if self.options.images_per_class:
                dataset = _first_of_each_class(dataset, self.options.images_per_class)
            self._data[side] = BenchData(dataset)
        return self._data[side]

    def units(self) -> tuple[Unit, ...]:
        """All runs, grouped by what they share; a method that has no signal in any of them is refused."""
        units = list(self._units(refused=False))
        self._require_signal(units)
        if not units:
            raise ConfigError(
                f"nothing is left to run: no split of {self.suite.protocol.name} trains on "
                f"{', '.join(self.options.sources) or 'any domain'} and tests on "
                f"{', '.join(self.options.targets) or 'any domain'}."
            )
        return tuple(units)

    def refused(self) -> tuple[Run, ...]:
        """The runs that were asked for and have no signal; to be called after `units`."""
        return tuple(run for unit in self._units(refused=True) for run in unit)

    def _units(self, *, refused: bool) -> Iterator[Unit]:
        for seed in range(self.options.first_seed, self.options.first_seed + self.options.seeds):
            for backbone, config in self._configs.items():
                for split in self._splits(self.data(config).dataset, seed):
                    yield from _by_candidate(self._runs(backbone, replace(config, seed=seed), split, refused=refused))

    def _require_signal(self, units: Sequence[Unit]) -> None:
        """Refuse a method that none of the trainings would give anything but Deep All's loss to learn from."""
        planned = {run.method_name for unit in units for run in unit}
        for (backbone, name), method in self._methods.items():
            splits = self._splits(self.data(self._configs[backbone]).dataset, self.options.first_seed)
            reasons = list(filter(None, (method.without_signal(*_seen_in(split)) for split in splits)))
            if name not in planned and reasons:
                raise ConfigError(reasons[0])

    def _splits(self, dataset: DomainDataset, seed: int) -> list[Split]:
        for what, wanted in (("target", self.options.targets), ("source", self.options.sources)):
            for name in wanted:
                if name not in dataset.domain_names:
                    raise ConfigError(
                        f"there is no {what} {name!r} in {dataset.name}; it has {', '.join(dataset.domain_names)}."
                    )
        splits = self._protocol(dataset).splits(dataset, seed)
        if self.options.sources:
            splits = [split for split in splits if set(split.facts["sources"]) == set(self.options.sources)]
        if count := self.options.source_images_per_class:
            splits = [replace(split, source=few_of_each_class(dataset, split.source, count, seed)) for split in splits]
        return splits

    def _protocol(self, dataset: DomainDataset) -> EvaluationProtocol:
        """The suite's; on VLCS the paper trains on 70 % of each source, whatever the table."""
        protocol = self.suite.protocol
        if isinstance(protocol, LeaveOneDomainOut) and dataset.name.lower() == "vlcs":
            return replace(protocol, source_fraction=_VLCS_FRACTION)
        return protocol

    def _runs(self, backbone: str, config: HomefoldConfig, split: Split, *, refused: bool) -> list[Run]:
        wanted = self.options.targets
        targets = [target for target in split.targets if not wanted or target.name in wanted]
        return [
            self._run(backbone, config, split, target, trial)
            for name in self.method_names
            if bool(self._methods[backbone, name].without_signal(*_seen_in(split))) == refused
            for trial in self._trials(backbone, name)
            for target in targets
        ]

    def _trials(self, backbone: str, name: str) -> list[_Trial]:
        """Every variation of a method with every candidate; they are the same for all sources and seeds."""
        if (backbone, name) not in self._trials_made:
            self._trials_made[backbone, name] = list(self._made_trials(backbone, name))
        return self._trials_made[backbone, name]

    def _made_trials(self, backbone: str, name: str) -> Iterator[_Trial]:
        preset, own = self.options.preset, self._own_configs[backbone, name]
        for variation in self.suite.variations:
            method = _varied(self._methods[backbone, name], variation)
            config = replace_settings(method.configure(own, preset), dict(variation.settings))
            candidates = candidates_for(self.options, name, method, config, variation)
            if not candidates:
                yield _Trial(name, method, variation, None, config)
            for candidate in candidates:
                changed = with_candidate(method, candidate.settings)
                config = replace_settings(changed.configure(own, preset), dict(variation.settings))
                config.views()  # complains of too many before any work
                yield _Trial(name, changed, variation, candidate, config)

    def candidates(self) -> dict[str, tuple[Candidate, ...]]:
        """By method, with the first network and as the suite varies it first."""
        first = self.suite.variations[0].name
        made = {name: self._trials(self.backbones[0], name) for name in self.method_names}
        return {
            name: tuple(trial.candidate for trial in trials if trial.candidate and trial.variation.name == first)
            for name, trials in made.items()
        }

    def _run(self, backbone: str, config: HomefoldConfig, split: Split, target: Target, trial: _Trial) -> Run:
        name, method, variation, candidate = trial.method_name, trial.method, trial.variation, trial.candidate
        configured = replace(trial.config, seed=config.seed)
        data = self.data(config)
        identity: dict[str, Any] = {
            "suite": self.suite.name,
            "dataset": data.dataset.name,
            "protocol": self.suite.protocol.name,
            "split": split.name,
            "target": [target.name, data.keys.of_labelled(target.indices)],
            "source": data.keys.of_labelled(split.source),
            "adapt": data.keys.of_labelled(split.adapt),
            "method": [name, method.settings()],
            "variation": variation.name,
            "selection": self.options.selection,
            "preset": self.options.preset,
            "configs": [["", config_to_dict(configured)]],
        }
        if candidate is not None:
            identity["candidate"] = candidate.settings
        if code := _code(method, configured):
            identity["code"] = code
        return Run(
            digest(identity), name, method, variation, candidate, backbone, config.seed, split, target, configured
        )

    def described(self, run: Run) -> dict[str, Any]:
        """What is known of a run before it is done, under the names that its record will have."""
        return {
            "run": run.id,
            "suite": self.suite.name,
            "dataset": as_text(self.data(run.config).dataset.name),
            "target": run.target.name,
            "method": run.method_name,
            "seed": run.seed,
            "backbone": run.backbone,
            "protocol": self.suite.protocol.name,
            "selection": self.options.selection,
            "preset": self.options.preset,
            "recipe": recipe_followed(run.method_name, run.backbone, self.options.recipe_followed),
            "changes": self.options.changes,
            "command": self.options.command,
            "facts": {
                "split": run.split.name,
                **run.split.facts,
                **run.target.facts,
                **run.variation.facts,
                **run.facts_of_own_code,
                **({} if run.candidate is None else {"candidate": asdict(run.candidate)}),
                **({NO_SIGNAL: f"{run.no_signal}."} if run.no_signal else {}),
            },
        }

    def stages_of(self, run: Run) -> list[StageId]:
        """Every stage that a run needs: on the whole source, and where that is asked for on all sources but one."""
        data = self.data(run.config)
        stages = list(run.method.planned_stages(data.task_key(run.split.source, run.config, run.split.adapt)))
        if run.candidate is not None and self.options.selection == "leave-one-source-out":
            for others, _ in self.all_but_one(run).values():
                stages += run.method.planned_stages(data.task_key(others, run.config))
        return stages

    def all_but_one(self, run: Run) -> dict[str, tuple[np.ndarray, np.ndarray]]:
        """For each source domain the indices of the other sources, and its own."""
        dataset = self.data(run.config).dataset
        domains = dataset.domains[run.split.source]
        names = [dataset.domain_names[index] for index in np.unique(domains)]
        if len(names) < 2:
            raise ConfigError(
                f"leave-one-source-out needs at least two source domains; {run.split.name} has {', '.join(names)} only."
            )
        parts = {}
        for name in names:
            own = domains == dataset.domain_index(name)
            parts[name] = (run.split.source[~own], run.split.source[own])
        return parts


def _by_candidate(runs: Sequence[Run]) -> list[Unit]:
    """Runs that try candidates of the same number together: methods that share a setting try the same value of it."""
    units: dict[int, list[Run]] = {}
    for run in runs:
        units.setdefault(run.candidate.number if run.candidate else 0, []).append(run)
    return [tuple(unit) for unit in units.values()]


def _seen_in(split: Split) -> tuple[int, int]:
    """How many source domains and how many labelled target images training is given."""
    return len(split.facts["sources"]), len(split.adapt)


def _varied(method: Method, variation: Variation) -> Method:
    if not variation.method:
        return method
    unknown = sorted(set(variation.method) - set(method.settings()))
    if unknown:
        raise ConfigError(f"the method {method.info.name} has no setting {', '.join(unknown)}, which the suite varies.")
    return method.varied(**variation.method)


def make_plan(planner: Planner) -> Plan:
    """What there is to do under the planner's options, and what of it lies in its folder already."""
    units = planner.units()
    records = finished_runs(planner.options.out)
    store = StageStore(planner.options.out / "stages")
    stages: dict[str, StageId] = {}
    for run in (run for unit in units for run in unit):
        stages |= {stage.digest: stage for stage in planner.stages_of(run)}
    some_run = units[0][0]
    return Plan(
        suite=planner.suite,
        dataset=planner.data(some_run.config).dataset.name,
        units=units,
        done=frozenset(name for name, record in records.items() if record.status == "finished"),
        failed=frozenset(name for name, record in records.items() if record.status == "failed"),
        stages=tuple(stages.values()),
        trained=frozenset(stage.digest for stage in stages.values() if store.has(stage)),
        selection=_describe_selection(planner, some_run),
        candidates={
            name: [candidate.settings for candidate in found] for name, found in planner.candidates().items() if found
        },
        refused=planner.refused(),
    )


def _describe_selection(planner: Planner, run: Run) -> str:
    options = planner.options
    if run.candidate is None:
        return options.selection
    if options.search:
        drawn = f"as it is, the others drawn with seed {options.search_seed}"
        return f"{options.selection} among {options.search} candidates: {drawn}"
    found = "; ".join(item.settings or "as it is" for item in planner.candidates()[run.method_name])
    return f"{options.selection} among {len(planner.candidates()[run.method_name])} candidates: {found}"
