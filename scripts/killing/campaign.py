"""`scripts/kills`: every family in turn, a line for each trial, a table at the end."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from killing.commands import BENCH, FIT
from killing.disk_family import on_full_disks
from killing.ground import Ground, Trial
from killing.kill_families import at_files, at_random_times, in_chains, with_signals
from killing.pair_families import in_pairs

__all__ = ["main"]


@dataclass(frozen=True)
class Family:
    """A row of the table.

    Args:
        about: what is done, for the table.
        trials: does it; is given how many kills are asked for.
        share: its part of the random kills.
    """

    about: str
    trials: Callable[[Ground, int], Iterator[Trial]]
    share: float = 0.0


FAMILIES = {
    "fit": Family("fit killed at a random time", lambda ground, n: at_random_times(ground, FIT, n), 0.4),
    "fit-files": Family("fit killed at each file operation", lambda ground, n: at_files(ground, FIT, _rounds(n))),
    "bench": Family("bench killed at a random time", lambda ground, n: at_random_times(ground, BENCH, n), 0.3),
    "bench-files": Family("bench killed at each file operation", lambda ground, n: at_files(ground, BENCH, _rounds(n))),
    "chain": Family("fit or bench killed four times in a row", in_chains, 0.3),
    "signals": Family(
        "fit or bench stopped by SIGTERM, SIGINT", lambda ground, n: with_signals(ground, max(4, n // 5))
    ),
    "disk": Family("the disk is full", lambda ground, n: on_full_disks(ground, max(2, min(8, n // 6)))),
    "pairs": Family("two processes at once", lambda ground, n: in_pairs(ground)),
}


def _rounds(kills: int) -> int:
    return max(1, kills // 50)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the campaign; 1 when anything failed."""
    options = _parser().parse_args(arguments)
    root = Path(tempfile.mkdtemp(prefix="homefold-kills-"))
    began = time.monotonic()
    print(f"{_versions()}; seed {options.seed}; in {root}", flush=True)
    chosen = options.only or list(FAMILIES)
    try:
        trials = list(_trials(Ground(root, options.seed), chosen, options.kills, options.keep))
    except KeyboardInterrupt:
        print(f"Stopped; {root} is kept.", file=sys.stderr)
        return 130
    print(f"\n{_table(trials)}\n\n{time.monotonic() - began:.0f} s")
    failed = [trial for trial in trials if trial.complaints]
    for trial in failed:
        print(f"failed: {trial.folder}: {trial.title}: {'; '.join(trial.complaints)}")
    if not failed and not options.keep:
        shutil.rmtree(root)
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, metavar="N", help="kills at random times (default: 50)")
    parser.add_argument("--seed", type=int, default=0, help="decides when; a fixed one does not fix the machine's pace")
    parser.add_argument("--only", action="append", choices=list(FAMILIES), help="one family (repeatable)")
    parser.add_argument("--keep", action="store_true", help="keep the folders of trials that went well, too")
    return parser


def _trials(ground: Ground, chosen: Sequence[str], kills: int, keep: bool) -> Iterator[Trial]:
    shares = sum(FAMILIES[name].share for name in chosen)
    for name in chosen:
        family = FAMILIES[name]
        count = round(kills * family.share / shares) if family.share else kills
        for trial in family.trials(ground, count):
            _tell(trial)
            if not trial.complaints and not keep:
                shutil.rmtree(trial.folder)
            yield trial


def _tell(trial: Trial) -> None:
    """A line on the terminal, and in a file beside its folder what the processes of a failed one said."""
    print(f"{trial.folder.name}: {trial.title}: {'; '.join(trial.complaints) or 'good'}", file=sys.stderr, flush=True)
    if trial.complaints:
        said = [f"exit code {ended.code} after {ended.seconds:.1f} s\n{ended.err}" for ended in trial.endings]
        trial.folder.with_suffix(".log").write_text(
            "\n".join([trial.title, *trial.complaints, *said]), encoding="utf-8"
        )


def _table(trials: Sequence[Trial]) -> str:
    """Counts by family, as Markdown."""
    rows = ["| family | trials | kills | good | of them with a sentence | failures |", "|---|---|---|---|---|---|"]
    for name, family in FAMILIES.items():
        own = [trial for trial in trials if trial.family == name]
        if own:
            rows.append(f"| {family.about} | {_counts(own)} |")
    return "\n".join([*rows, f"| all | {_counts(trials)} |"])


def _counts(trials: Sequence[Trial]) -> str:
    good = [trial for trial in trials if not trial.complaints]
    kills = sum(trial.kills for trial in trials)
    refused = sum(trial.refused for trial in good)
    return " | ".join(str(value) for value in (len(trials), kills, len(good), refused, len(trials) - len(good)))


def _versions() -> str:
    packages = ", ".join(f"{name} {version(name)}" for name in ("homefold", "torch", "numpy"))
    return f"{packages}, Python {platform.python_version()}, {os.cpu_count()} cores"
