"""Units of a plan on a Ray cluster: recorded by one hand, done again where a worker is lost, the same as elsewhere."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from homefold.errors import ConfigError
from homefold.evaluation import ray_crew
from homefold.evaluation.artifacts import artifact_path
from homefold.evaluation.bench import run_bench
from homefold.evaluation.execution import failed_record
from homefold.evaluation.planning import Planner, make_plan, records_path
from homefold.evaluation.ray_crew import Job, unit_on_ray
from homefold.evaluation.records import read_records
from homefold.runtime.provenance import code_commit
from homefold.store.locking import claimed
from homefold.version import __version__


class _RayError(Exception):
    pass


class _RayTaskError(_RayError):
    def __init__(self, cause: Exception) -> None:
        self.cause = cause


class _FakeRay:
    """A cluster in this process: `fate(place, attempt)` says after how many results a unit's worker is lost."""

    exceptions = SimpleNamespace(RayError=_RayError, RayTaskError=_RayTaskError)

    def __init__(self, fate: Callable[[int, int], int | None]) -> None:
        self.fate, self.attempts, self.cancelled = fate, dict[int, int](), 0

    def is_initialized(self) -> bool:
        return True

    def nodes(self) -> list[dict[str, Any]]:
        return [{"Alive": True, "Resources": {"CPU": 2.0}}, {"Alive": False, "Resources": {"CPU": 64.0}}]

    def cluster_resources(self) -> dict[str, float]:
        return {"CPU": 2.0}

    def cancel(self, results: Any) -> None:
        self.cancelled += 1

    def put(self, value: Any) -> Any:
        return value

    def get(self, thunk: Callable[[], Any]) -> Any:
        return thunk()

    def wait(self, results: list[Any], timeout: float) -> tuple[list[Any], list[Any]]:
        return results[:1], results[1:]

    def remote(self, **wanted: Any) -> Callable[[Any], Any]:
        return lambda do: SimpleNamespace(remote=lambda *arguments: self._begin(do, *arguments))

    def _begin(self, do: Any, job: Job, dataset: Any, place: int, ids: frozenset[str]) -> Iterator[Any]:
        attempt = self.attempts[place] = self.attempts.get(place, 0) + 1
        fate = self.fate(place, attempt)

        def results() -> Iterator[Any]:
            try:
                for number, result in enumerate(do(job, dataset, place, ids)):
                    if number == fate:
                        break
                    yield lambda result=result: result
            except ConfigError as error:
                yield lambda error=error: self._raise(_RayTaskError(error))
            else:
                if fate is not None:
                    yield lambda: self._raise(_RayError("The node died.\nMuch more of it."))

        return results()

    def _raise(self, error: Exception) -> None:
        raise error


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch, tiny, tiny_digits) -> Callable[..., Any]:
    """A benchmark of two units of two runs on a fake cluster, whose runs are made up in a moment."""

    def run(fate: Callable[[int, int], int | None] = lambda place, attempt: None, **changes: Any) -> Any:
        fake = _FakeRay(fate)
        monkeypatch.setitem(sys.modules, "ray", fake)
        changes = {"methods": ("deep-all", "nearest"), "targets": ("street", "scan"), "on": "ray", **changes}
        options = tiny(**changes)
        planner = Planner(options, tiny_digits)
        plan = make_plan(planner)

        def quickly(job: Job, dataset: Any, place: int, ids: frozenset[str]) -> Iterator[Any]:
            for run in plan.units[place]:
                if run.id in ids:
                    blank = failed_record(planner, run, "", torch.device("cpu"))
                    yield replace(blank, status="finished", accuracy=0.5), {"labels": np.arange(place + 3)}

        if ray_crew.unit_on_ray is unit_on_ray:
            monkeypatch.setattr(ray_crew, "unit_on_ray", quickly)
        told: list[str] = []
        records = run_bench(options, planner=planner, plan=plan, on_run=lambda run, record: told.append(run.id))
        return SimpleNamespace(records=records, told=told, fake=fake, options=options, plan=plan)

    return run


def lines(options: Any) -> list[tuple[str, str]]:
    return [(record.run, record.status) for record in read_records(records_path(options.out))]


def test_the_driver_writes_each_record_once_and_its_artifact(cluster):
    ended = cluster()
    assert [record.status for record in ended.records] == ["finished"] * 4
    assert sorted(lines(ended.options)) == sorted((run.id, "finished") for run in ended.plan.runs)
    assert sorted(ended.told) == sorted(run.id for run in ended.plan.runs)
    for place, unit in enumerate(ended.plan.units):
        for run in unit:
            assert len(np.load(artifact_path(ended.options.out, run.id))["labels"]) == place + 3
    again = cluster()
    assert (again.told, again.fake.attempts) == ([], {})


def test_what_a_lost_worker_left_is_done_elsewhere_and_nothing_twice(cluster):
    ended = cluster(lambda place, attempt: 1 if (place, attempt) == (0, 1) else None)
    assert ended.fake.attempts == {0: 2, 1: 1}
    assert sorted(lines(ended.options)) == sorted((run.id, "finished") for run in ended.plan.runs)


def test_a_unit_that_loses_every_worker_fails_alone(cluster):
    ended = cluster(lambda place, attempt: 0 if place == 0 else None)
    assert ended.fake.attempts == {0: 3, 1: 1}
    by_id = {record.run: record for record in ended.records}
    first, second = ended.plan.units
    assert [by_id[run.id].error for run in first] == ["its worker was lost 3 times, at last so: The node died."] * 2
    assert [by_id[run.id].status for run in second] == ["finished"] * 2


def test_a_machine_with_other_data_is_told_in_the_record(cluster, monkeypatch):
    monkeypatch.setattr(ray_crew, "unit_on_ray", lambda *arguments: iter(()))
    ended = cluster()
    assert {record.status for record in ended.records} == {"failed"}
    assert "are not those that the benchmark was planned with" in ended.records[0].error


def test_what_a_worker_cannot_do_ends_the_benchmark_with_its_sentence(cluster, monkeypatch):
    def refuses(*arguments: Any) -> Iterator[Any]:
        raise ConfigError("the machine far cannot take part: it has homefold 0.")
        yield

    monkeypatch.setattr(ray_crew, "unit_on_ray", refuses)
    with pytest.raises(ConfigError, match=r"^the machine far cannot take part"):
        cluster()
    assert sys.modules["ray"].cancelled == 2, "both units were handed out"


def test_two_drivers_do_not_work_in_one_folder(cluster, tiny):
    with (
        claimed(tiny().out / ".ray.lock", wait=False),
        pytest.raises(ConfigError, match="another homefold bench --on ray works in"),
    ):
        cluster()
    assert len(cluster().records) == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"threads": 3}, "threads is 3, and the cluster's largest machine gives out 2 CPUs"),
        ({"device": "cuda"}, "device is cuda, and the cluster gives out no GPU; choose cpu"),
        ({"jobs": 2}, "jobs is for one machine"),
        ({"on": "slurm"}, "on is local or ray; got 'slurm'"),
        ({"threads": -1}, "threads must not be negative; got -1"),
    ],
)
def test_what_a_cluster_has_no_room_for_is_a_sentence(cluster, changes, words):
    with pytest.raises(ConfigError, match=words):
        cluster(**changes)


def test_a_machine_with_other_code_is_refused(tiny, tiny_digits):
    code = (__version__, code_commit())
    job = Job("other", tiny(), os.getcwd(), ("0.0.1", "f" * 40), {})
    with pytest.raises(
        ConfigError, match=rf"cannot take part: it has homefold {code[0]}.*started with 0\.0\.1 at commit f"
    ):
        next(unit_on_ray(job, tiny_digits, 0, frozenset()))


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs pip install 'homefold[ray]'")
def test_on_several_nodes_of_which_one_is_killed_the_records_are_those_of_jobs(tmp_path: Path) -> None:
    from ray_nodes import options

    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    program = [sys.executable, str(Path(__file__).with_name("ray_nodes.py")), str(tmp_path / "ray")]
    done = subprocess.run(program, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads((tmp_path / "told.json").read_text())
    assert told["status"] == ["finished"] * 4
    assert sorted(told["began"]) in ([0, 0, 1], [0, 1, 1]), (
        "what the killed node was at is done again, and nothing else"
    )

    local = replace(options(tmp_path / "jobs"), on="local", jobs=2, threads=1)
    there = {record.run: record for record in read_records(records_path(tmp_path / "ray"))}
    here = {record.run: record for record in run_bench(local)}
    assert there.keys() == here.keys()
    assert len(lines(options(tmp_path / "ray"))) == 4
    for run, record in here.items():
        assert without_times(there[run]) == without_times(record)
        arrays = [np.load(artifact_path(tmp_path / name, run)) for name in ("ray", "jobs")]
        assert all(arrays[0][name].tobytes() == arrays[1][name].tobytes() for name in arrays[0])


def without_times(record: Any) -> Any:
    facts = {**record.facts, "stages": sorted(record.facts["stages"])}
    return replace(record, seconds={}, facts=facts, commit="")  # which changes when files do meanwhile
