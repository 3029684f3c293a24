"""The benchmark: plan, do what is not done, side by side if asked; stop it anywhere, start it again, and it goes on."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from homefold.data.dataset import DomainDataset
from homefold.evaluation.execution import Executor, failed_record
from homefold.evaluation.options import BenchOptions
from homefold.evaluation.plan_file import write_plan
from homefold.evaluation.planning import Plan, Planner, Run, Unit, finished_runs, make_plan, records_path
from homefold.evaluation.records import Ledger, RunRecord
from homefold.runtime.children import end_with_parent
from homefold.runtime.device import resolve_device
from homefold.runtime.plugins import load_plugin, plugin_sources
from homefold.runtime.progress import ProgressReporter
from homefold.runtime.ray_cluster import ready_ray

__all__ = ["Watcher", "run_bench"]

Watcher = Callable[[Run, RunRecord], None]
"""Is told each run as it ends."""


def run_bench(
    options: BenchOptions,
    *,
    dataset: DomainDataset | None = None,
    plan: Plan | None = None,
    planner: Planner | None = None,
    reporter: ProgressReporter | None = None,
    on_run: Watcher | None = None,
) -> list[RunRecord]:
    """Do every run that has no record of success yet, and return the records of all runs that were asked for.

    Args:
        options: what is asked for.
        dataset: in place of `options.data`, when it is in memory already.
        plan, planner: of these options, when the plan was shown before.
        reporter: is told what each stage does, when there is one process.
        on_run: is told each run as it ends.
    """
    planner = planner or Planner(options, dataset, reporter)
    plan = plan or make_plan(planner)
    if options.on == "local":
        resolve_device(options.device)  # complains before processes are started
    else:
        ready_ray()
    write_plan(planner, plan)
    tell = on_run or (lambda run, record: None)
    units = plan.remaining_units()
    if options.on == "ray":
        from homefold.evaluation.ray_crew import RayCrew

        if units:
            RayCrew(planner, dataset, plan, tell).do(units)
    elif options.jobs == 1:
        if options.threads:
            torch.set_num_threads(options.threads)
        executor, ledger = Executor(planner, reporter), Ledger(records_path(options.out))
        for unit in units:
            for run, record in executor.record_unit(unit, ledger):
                tell(run, record)
    elif units:
        _Crew(planner, dataset, plan, tell).do(units)
    records = finished_runs(options.out)
    return [records[run.id] for run in plan.runs if run.id in records]


class _Crew:
    """Several processes, each of which does one unit and ends; one that dies costs its unit's runs and no more."""

    def __init__(self, planner: Planner, dataset: DomainDataset | None, plan: Plan, tell: Watcher) -> None:
        self.planner, self.dataset, self.tell = planner, dataset, tell
        self.ledger = Ledger(records_path(planner.options.out))
        self.runs = {run.id: run for run in plan.runs}
        self.places = {run.id: index for index, unit in enumerate(plan.units) for run in unit}
        self.context = multiprocessing.get_context("spawn")

    def do(self, units: tuple[Unit, ...]) -> None:
        waiting = list(reversed(units))
        working: dict[Connection, tuple[BaseProcess, Unit, set[str]]] = {}
        try:
            while waiting or working:
                while waiting and len(working) < self.planner.options.jobs:
                    unit = waiting.pop()
                    connection, process = self._start(unit)
                    working[connection] = (process, unit, set())
                for ready in wait(list(working)):
                    assert isinstance(ready, Connection)
                    self._listen(ready, working)
        finally:
            for process, _, _ in working.values():
                process.terminate()
            for process, _, _ in working.values():
                process.join()

    def _start(self, unit: Unit) -> tuple[Connection, BaseProcess]:
        ours, theirs = self.context.Pipe(duplex=False)
        place, ids = self.places[unit[0].id], frozenset(run.id for run in unit)
        arguments = (theirs, self.planner.options, self.dataset, self.ledger.known, place, ids, plugin_sources())
        process = self.context.Process(target=_work, args=arguments, name=unit[0].title)
        process.start()
        theirs.close()
        return ours, process

    def _listen(self, connection: Connection, working: dict[Connection, tuple[BaseProcess, Unit, set[str]]]) -> None:
        process, unit, heard = working[connection]
        try:
            record: RunRecord = connection.recv()
        except EOFError:
            connection.close()
            process.join()
            del working[connection]
            self._account_for(process, unit, heard)
            return
        heard.add(record.run)
        self.tell(self.runs[record.run], record)

    def _account_for(self, process: BaseProcess, unit: Unit, heard: set[str]) -> None:
        """Record as failed what a process left undone when it ended."""
        device = resolve_device(self.planner.options.device)
        reason = _how_it_ended(process.exitcode)
        for run in unit:
            if run.id not in heard:
                record = self.ledger.once(run.id, partial(failed_record, self.planner, run, reason, device))
                assert record is not None
                self.tell(run, record)


def _how_it_ended(code: int | None) -> str:
    if code == 0:
        return (
            "what it is made of (images, weights, the code of a method of your own) changed after the benchmark was "
            "started; start it again."
        )
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = "; perhaps memory ran out: take fewer jobs" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}."
    return f"its process ended with exit code {code} before the run was done; its own message stands above."


def _work(
    connection: Connection,
    options: BenchOptions,
    dataset: DomainDataset | None,
    known: int,
    place: int,
    ids: frozenset[str],
    plugins: Mapping[Path, bytes],
) -> None:
    """Do the runs with these ids of the unit at `place`, in a process of its own; tell each record.

    Plugins are those that the runs were planned with, whatever their files hold by now.
    """
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends us
    torch.set_num_threads(options.threads or max(1, (os.cpu_count() or 1) // options.jobs))
    for plugin in options.plugins:
        load_plugin(plugin, plugins.get(plugin.expanduser().resolve()))
    planner = Planner(replace(options, plugins=()), dataset)
    left = tuple(run for run in planner.units()[place] if run.id in ids)
    for _, record in Executor(planner).record_unit(left, Ledger(records_path(options.out), known)):
        connection.send(record)
