"""What is measured: each job runs in a checkout and gives seconds for one or more things by name."""

from __future__ import annotations

import json
import resource
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from same_answers.checkout import Checkout
from same_answers.data import prepare_digits

__all__ = ["JOBS", "Job"]

Seconds = tuple[float, float]

_PROBES = "same_speed.probes"
_FEW = {"features.epochs": 1, "features.batch_size": 32, "manifold.epochs": 40, "classifier.epochs": 5}
_BENCH = ("digits-mini", "--data", "digits-mini", "--preset", "quick", "--targets", "street", "--seeds", "1")
_BENCH_METHODS = ("--methods", "deep-all", "without-projection", "vae", "t3a+vae", "--images-per-class", "16")


@dataclass(frozen=True)
class Job:
    """One process of a checkout, or what several measure together.

    Args:
        measure: gives seconds and processor seconds by name; the folder is the job's own and outlives a round.
        prepare: fills the folder once.
    """

    measure: Callable[[Checkout, Path], dict[str, Seconds]]
    prepare: Callable[[Checkout, Path], object] | None = None


def _processes(work: Callable[[], object]) -> Seconds:
    """Seconds of work done by child processes."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _help(checkout: Checkout, folder: Path) -> dict[str, Seconds]:
    return {"homefold fit --help": _processes(lambda: checkout.help("fit"))}


def _search(checkout: Checkout, folder: Path) -> dict[str, Seconds]:
    return dict(json.loads(checkout.probe("search", module=_PROBES)))


def _train_and_predict(checkout: Checkout, folder: Path) -> dict[str, Seconds]:
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        model = Path(scratch, "model")
        told: tuple[str | Path, ...] = ("digits-mini", "--out", model, "--holdout", "street", "--preset", "small")
        words = checkout.command_line("fit", *told, "--json", settings=_FEW)
        printed = checkout.probe("train-and-predict", "digits", model, *words, module=_PROBES)
    return dict(json.loads(printed))


def _bench(checkout: Checkout, runs: Path) -> None:
    checkout.homefold("bench", *_BENCH, *_BENCH_METHODS, "--out", runs, cache=runs.parent / ".cache", settings=_FEW)


def _bench_of_trained(checkout: Checkout, folder: Path) -> dict[str, Seconds]:
    """All that a benchmark does but training: its stages are there, its records are not."""
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        runs = Path(scratch, "runs")
        shutil.copytree(folder / "runs" / "stages", runs / "stages")
        return {"bench of trained stages": _processes(lambda: _bench(checkout, runs))}


JOBS: dict[str, Job] = {
    "help": Job(_help),
    "search": Job(_search),
    "train-and-predict": Job(_train_and_predict, lambda checkout, folder: prepare_digits(checkout)),
    "bench": Job(_bench_of_trained, lambda checkout, folder: _bench(checkout, folder / "runs")),
}
"""Every job by name."""
