"""The units of a plan as tasks of a Ray cluster; the driver alone claims the folder, and writes records and artifacts.

Nothing relies on a lock that machines share, since many network file systems have none: a task writes trained stages
alone, each whole under another name and then renamed, so two machines that train one twice do no harm.
"""

from __future__ import annotations

import os
import platform
import secrets
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from homefold.data.dataset import DomainDataset
from homefold.errors import ConfigError, HomefoldError
from homefold.evaluation.artifacts import artifact_path, write_artifact
from homefold.evaluation.execution import Executor, failed_record
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.planning import Plan, Planner, Run, Unit, records_path
from homefold.evaluation.records import Ledger, RunRecord
from homefold.runtime.plugins import load_plugin, plugin_sources
from homefold.runtime.provenance import code_commit
from homefold.runtime.ray_cluster import ray_cluster
from homefold.store.locking import claimed
from homefold.version import __version__

__all__ = ["RayCrew"]

_ATTEMPTS = 3
_WAIT_SECONDS = 10.0
_ON_ITS_WAY = 2  # units handed out for each that is being done, so that no machine waits for its next one

Arrays = dict[str, np.ndarray]


@dataclass(frozen=True, eq=False)
class Job:
    """What every task of a benchmark is told.

    Args:
        name: tells it from other benchmarks.
        options: with the folder's whole path.
        place: where the driver was started, which relative paths are meant from.
        code: version and commit of the driver's code.
        plugins: what each held when the runs were planned.
    """

    name: str
    options: BenchOptions
    place: str
    code: tuple[str, str]
    plugins: Mapping[Path, bytes]


@dataclass(eq=False)
class _Task:
    """A unit that is being done somewhere, and the runs of it that are not recorded yet."""

    place: int
    left: dict[str, Run]


class RayCrew:
    """Hands units to a cluster; a worker or a machine that is lost costs its unit, which is done again elsewhere."""

    def __init__(
        self, planner: Planner, dataset: DomainDataset | None, plan: Plan, tell: Callable[[Run, RunRecord], None]
    ) -> None:
        self.planner, self.dataset, self.tell = planner, dataset, tell
        self.out, self.threads = planner.options.out, max(1, planner.options.threads)
        self.ledger = Ledger(records_path(self.out))
        self.places = {run.id: index for index, unit in enumerate(plan.units) for run in unit}
        self.attempts = Counter[int]()

    def do(self, units: tuple[Unit, ...]) -> None:
        """Do all units, as many at a time as the cluster has room for."""
        with claimed(self.out / ".ray.lock", wait=False) as held:
            if not held:
                raise ConfigError(f"another homefold bench --on ray works in {self.out}; wait for it to end.")
            with ray_cluster() as ray:
                self._require_room(ray)
                working: dict[Any, _Task] = {}
                try:
                    self._do(ray, units, self._starter(ray), working)
                finally:
                    for results in working:  # what a stop or an error leaves: nobody hears it any more
                        ray.cancel(results)

    def _require_room(self, ray: Any) -> None:
        """Refuse what would wait for ever."""
        device, most = self.planner.options.device, max(_cpus(ray), default=0)
        if most < self.threads:
            raise ConfigError(f"threads is {self.threads}, and the cluster's largest machine gives out {most} CPUs.")
        if device.startswith("cuda") and not ray.cluster_resources().get("GPU"):
            raise ConfigError(f"device is {device}, and the cluster gives out no GPU; choose cpu.")

    def _starter(self, ray: Any) -> Callable[[int, frozenset[str]], Any]:
        """A function that hands out the runs with some ids of the unit at a place of the plan."""
        options = replace(self.planner.options, out=self.out.resolve())
        wants_gpu = options.device.startswith(("cuda", "auto")) and ray.cluster_resources().get("GPU")
        job = Job(secrets.token_hex(8), options, str(Path.cwd()), (__version__, code_commit()), plugin_sources())
        told, dataset = ray.put(job), ray.put(self.dataset)
        task = ray.remote(
            num_cpus=self.threads, num_gpus=1 if wants_gpu else 0, max_retries=0, num_returns="streaming"
        )(unit_on_ray)
        return lambda place, ids: task.remote(told, dataset, place, ids)

    def _do(
        self,
        ray: Any,
        units: Iterable[Unit],
        start: Callable[[int, frozenset[str]], Any],
        working: dict[Any, _Task],
    ) -> None:
        """Do all units; `working` holds what is handed out, by its results."""
        waiting = [_Task(self.places[unit[0].id], {run.id: run for run in unit}) for unit in units]
        while waiting or working:
            room = _ON_ITS_WAY * max(1, sum(cpus // self.threads for cpus in _cpus(ray)))
            for task in [waiting.pop(0) for _ in range(min(len(waiting), room - len(working)))]:
                self.attempts[task.place] += 1
                working[start(task.place, frozenset(task.left))] = task
            for results in ray.wait(list(working), timeout=_WAIT_SECONDS)[0]:
                task = working[results]
                try:
                    self._record(task, *ray.get(next(results)))
                    continue
                except StopIteration:
                    self._give_up(task, _CHANGED)
                except ray.exceptions.RayTaskError as error:  # what the unit itself raised: a full disk, say
                    raise getattr(error, "cause", error) from None
                except ray.exceptions.RayError as error:
                    if self.attempts[task.place] < _ATTEMPTS:
                        waiting.append(task)
                    else:
                        self._give_up(task, f"its worker was lost {_ATTEMPTS} times, at last so: {_first_line(error)}")
                del working[results]

    def _record(self, task: _Task, record: RunRecord, arrays: Arrays) -> None:
        """Write the record, unless another benchmark did while the unit was away, and its artifact before it."""

        def keep() -> RunRecord:
            if arrays:
                write_artifact(artifact_path(self.out, record.run), arrays)
            return record

        found = self.ledger.once(record.run, keep)
        assert found is not None
        self.tell(task.left.pop(record.run), found)

    def _give_up(self, task: _Task, reason: str) -> None:
        """Record as failed what is left of a unit."""
        for run in list(task.left.values()):
            self._record(task, failed_record(self.planner, run, reason, torch.device("cpu")), {})


_CHANGED = (
    "the images or weights on the machine that did it are not those that the benchmark was planned with; give every "
    "machine the same."
)


def _cpus(ray: Any) -> list[int]:
    """How many CPUs each machine of the cluster gives out."""
    return [int(node["Resources"].get("CPU", 0)) for node in ray.nodes() if node["Alive"]]


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


# By the name of a job what this process planned for it, as a process does many units.
_planned: dict[str, tuple[Planner, tuple[Unit, ...]]] = {}


def unit_on_ray(job: Job, dataset: DomainDataset | None, place: int, ids: frozenset[str]) -> Iterator[Any]:
    """Do the runs with these ids of the unit at `place`, in a process of the cluster: records, each with its arrays."""
    try:
        planner, units = _plan(job, dataset)
    except HomefoldError as error:
        raise ConfigError(f"the machine {platform.node()} cannot take part: {error}") from None
    kept: dict[str, Arrays] = {}
    executor = Executor(planner, keep=kept.__setitem__)
    for _, record in executor.do_unit(tuple(run for run in units[place] if run.id in ids)):
        yield record, kept.pop(record.run, {})


def _plan(job: Job, dataset: DomainDataset | None) -> tuple[Planner, tuple[Unit, ...]]:
    if job.name not in _planned:
        if (code := (__version__, code_commit())) != job.code:
            raise ConfigError(
                f"it has homefold {_version(code)}, and the benchmark was started with {_version(job.code)}; install "
                f"the same."
            )
        with suppress(OSError):  # where there is no such folder here, relative paths say so themselves
            os.chdir(job.place)
        torch.set_num_threads(max(1, job.options.threads))
        for path, source in job.plugins.items():
            load_plugin(path, source)
        planner = Planner(replace(job.options, plugins=()), dataset)
        _planned.clear()
        _planned[job.name] = planner, planner.units()
    return _planned[job.name]


def _version(code: tuple[str, str]) -> str:
    version, commit = code
    return f"{version} at commit {commit}" if commit else version
