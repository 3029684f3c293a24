"""The command: run every job in both checkouts, in turn, and print a table of ratios."""

from __future__ import annotations

import argparse
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from same_answers.checkout import Checkout, CheckoutError

from same_speed.jobs import JOBS, Job
from same_speed.ratios import HEADING, ratio_row

__all__ = ["main"]

_ABOUT = """Measure two checkouts of homefold in one run, and print how fast NEW is beside OLD.

The processes of OLD and NEW take turns, one at a time, on the CPU with one thread. Each row has the least time of all
rounds, its ratio new/old, and between which ratios the rounds lie; then the same ratios of processor time, which other
processes on this machine disturb less. What fails is said below the table; the exit code is 0 all the same."""

Measured = dict[str, list[tuple[float, float]]]


def main(arguments: Sequence[str], jobs: Mapping[str, Job] = JOBS) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(
        prog="same-speed", description=_ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", type=Path, metavar="OLD", help="the checkout to compare with")
    parser.add_argument("new", type=Path, metavar="NEW", help="the checkout to measure")
    parser.add_argument(
        "--only", nargs="+", choices=list(jobs), default=list(jobs), metavar="JOB", help=", ".join(jobs)
    )
    parser.add_argument("--rounds", type=int, default=5, help="times that each job runs in each checkout")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="same-speed-") as scratch:
        try:
            _measure(options, {name: jobs[name] for name in jobs if name in options.only}, Path(scratch))
        except CheckoutError as error:
            print(f"error: {error}")
    print(f"\n{options.rounds} rounds, {time.monotonic() - began:.0f} s")
    return 0


def _measure(options: argparse.Namespace, jobs: Mapping[str, Job], scratch: Path) -> None:
    """Print a row for each thing measured, and a sentence for each job that failed."""
    (scratch / "data").mkdir()
    old, new = (Checkout(path, scratch / "data") for path in (options.old, options.new))
    print(f"OLD {old.title}\nNEW {new.title}\n\n{HEADING}", flush=True)
    failures = []
    for name, job in jobs.items():
        try:
            measured = _in_turn(
                job, (old, new), [scratch / f"{side}-{name}" for side in ("old", "new")], options.rounds
            )
        except (CheckoutError, LookupError, OSError) as error:
            failures.append(f"{name} failed: {error}")
            continue
        for what, seconds in measured[0].items():
            if what in measured[1]:
                print(ratio_row(what, seconds, measured[1][what]), flush=True)
    print("".join(f"\n{failure}" for failure in failures))


def _in_turn(
    job: Job, checkouts: Sequence[Checkout], folders: Sequence[Path], rounds: int
) -> tuple[Measured, Measured]:
    """What a job measured in each checkout; who goes first changes from round to round."""
    for checkout, folder in zip(checkouts, folders, strict=True):
        folder.mkdir()
        if job.prepare:
            job.prepare(checkout, folder)
    measured: tuple[Measured, Measured] = (defaultdict(list), defaultdict(list))
    for number in range(rounds):
        for side in (0, 1) if number % 2 == 0 else (1, 0):
            for what, seconds in job.measure(checkouts[side], folders[side]).items():
                measured[side][what].append(seconds)
    return measured
