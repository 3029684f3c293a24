"""The two commands that are killed, small enough to end in seconds, and how they are run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["BENCH", "FIT", "REPLACING_FIT", "Command", "Ended", "run", "start", "wait_for"]

_HANGS_AFTER_SECONDS = 180.0

_SMALL = {
    "features.epochs": "4",
    "features.batch_size": "32",
    "features.feature_dim": "32",
    "features.checkpoint_seconds": "0",
    "manifold.epochs": "40",
    "manifold.latent_dim": "8",
    "preprocessing.image_size": "16",
}
_FIT_FLAGS = [word for name, value in _SMALL.items() for word in (f"--{name.replace('_', '-')}", value)]
_BENCH_SETTINGS = [f"{name}={value}" for name, value in _SMALL.items()]


@dataclass(frozen=True)
class Command:
    """A command of homefold whose result is compared.

    Args:
        name: `fit` or `bench`.
        arguments: all its words but for the output.
        out: the folder it writes to, from the working folder.
        exact: whether every byte of the output repeats, and not only what is no time.
    """

    name: str
    arguments: tuple[str, ...]
    out: str
    exact: bool

    @property
    def words(self) -> list[str]:
        """The words after `homefold`."""
        return [self.name, *self.arguments, "--out", self.out]

    def writing_to(self, out: str) -> Command:
        """The same with another output."""
        return replace(self, out=out)


FIT = Command("fit", ("../photos", "--preset", "small", "--device", "cpu", *_FIT_FLAGS), "model", exact=True)
REPLACING_FIT = replace(FIT, arguments=(*FIT.arguments, "--overwrite"))
BENCH = Command(
    "bench",
    (
        *("digits-mini", "--data", "../photos", "--preset", "quick", "--device", "cpu", "--seeds", "1"),
        *("--methods", "deep-all", "nearest", "--targets", "scan", "print", "--set", *_BENCH_SETTINGS),
    ),
    "runs",
    exact=False,
)


@dataclass(frozen=True)
class Ended:
    """How a command ended: negative codes are signals, as `subprocess` has it; None is a process that hung."""

    code: int | None
    out: str
    err: str
    seconds: float

    @property
    def traceback(self) -> bool:
        """Whether a person saw the inside of the program."""
        return "Traceback (most recent call last)" in self.err

    @property
    def sentence(self) -> str | None:
        """The one line that begins with `error:`; None if there is none, several, or a traceback."""
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        return lines[0] if len(lines) == 1 and not self.traceback else None

    @property
    def refused(self) -> bool:
        """Whether it ended with a sentence."""
        return self.code == 1 and self.sentence is not None


def start(words: Sequence[str], folder: Path, *, prepare: Callable[[], None] | None = None) -> subprocess.Popen[str]:
    """Start `python WORDS` in a folder, with one thread and a cache of its own there."""
    scripts = str(Path(__file__).parent.parent)
    environment = {
        **os.environ,
        "HOMEFOLD_CACHE": str(folder / "cache"),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [scripts, os.environ.get("PYTHONPATH", "")])),
        "PYTHONSAFEPATH": "1",
    }
    environment.pop("HOMEFOLD_DEBUG", None)
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        preexec_fn=prepare,
    )


def wait_for(
    process: subprocess.Popen[str], *, stop_after: float | None = None, how: signal.Signals = signal.SIGKILL
) -> Ended:
    """Wait until a process ends; send it a signal after so many seconds, if it is not done by then."""
    began = time.monotonic()
    try:
        if stop_after is not None:
            try:
                out, err = process.communicate(timeout=stop_after)
                return Ended(process.returncode, out, err, time.monotonic() - began)
            except subprocess.TimeoutExpired:
                process.send_signal(how)
        out, err = process.communicate(timeout=_HANGS_AFTER_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        return Ended(None, out, err, time.monotonic() - began)
    except BaseException:
        process.kill()
        process.wait()
        raise
    return Ended(process.returncode, out, err, time.monotonic() - began)


def run(
    command: Command,
    folder: Path,
    *,
    stop_after: float | None = None,
    how: signal.Signals = signal.SIGKILL,
    prepare: Callable[[], None] | None = None,
) -> Ended:
    """Run a command in a folder to its end, or until a signal."""
    process = start(["-m", "homefold", *command.words], folder, prepare=prepare)
    return wait_for(process, stop_after=stop_after, how=how)
