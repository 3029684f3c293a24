"""Where the campaign runs: a scratch folder with the images, unkilled reference runs, and a folder for each trial."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

from homefold.data import load_digits_mini
from killing.commands import BENCH, FIT, Command, Ended, run, start, wait_for
from killing.compare import differences, paths_in, repeated_runs, snapshot
from killing.moments import read_recorded, recording

__all__ = ["Ground", "Reference", "Trial"]

_DOMAINS, _CLASSES, _IMAGES = 3, 4, 20


@dataclass(frozen=True)
class Reference:
    """What a command does when nobody disturbs it.

    Args:
        command: the command.
        result: a snapshot of its output.
        paths: everything that lies in its working folder afterwards.
        operations: its file operations in order, with the bytes on the disk before each.
    """

    command: Command
    result: dict[str, str]
    paths: set[str]
    operations: list[tuple[str, int]]


@dataclass
class Trial:
    """One disturbance of a command, and what is wrong with what came of it.

    Args:
        family: the row of the table.
        title: what was done.
        folder: where.
        endings: how each process ended, in order.
        complaints: what is wrong.
        kills: how many processes were ended by a signal before their work was done.
        refused: whether a process declined to work, in a sentence.
    """

    family: str
    title: str
    folder: Path
    endings: list[Ended] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    kills: int = 0
    refused: bool = False

    def clear(self) -> None:
        """Empty the folder."""
        shutil.rmtree(self.folder)
        self.folder.mkdir()

    def disturbed(self, ended: Ended) -> Ended:
        """Note how a process ended that was to be killed."""
        self.endings.append(ended)
        self._require_polite(ended)
        return ended

    def ended_by_itself(self, ended: Ended) -> Ended:
        """Note how a process ended that nobody disturbed: well, or with a sentence."""
        self.endings.append(ended)
        self._require_polite(ended)
        self.refused |= ended.refused
        if ended.code not in (0, None) and not ended.refused:
            self.complaints.append(f"exit code {ended.code} without one sentence that says why")
        return ended

    def _require_polite(self, ended: Ended) -> None:
        if ended.code is None:
            self.complaints.append("it hung and had to be killed")
        elif ended.traceback:
            self.complaints.append(f"a traceback: {ended.err.strip().splitlines()[-1]}")

    def require_result(self, reference: Reference, out: str | None = None) -> None:
        """An output must be the reference's: `out`, or where the reference has its own."""
        command = reference.command
        folder = self.folder / (out or command.out)
        wrong = differences(reference.result, snapshot(folder, exact=command.exact)) + repeated_runs(folder)
        said = [f"it said: {ended.sentence}" for ended in self.endings[-1:] if wrong and ended.refused]
        self.complaints += wrong + said

    def require_tidy(self, reference: Reference, *others: str) -> None:
        """Beside the outputs, of which `others` may be there too, may lie only what the reference left there."""
        outputs = {reference.command.out, *others}
        strange = {name for name in paths_in(self.folder) - reference.paths if Path(name).parts[0] not in outputs}
        tops = sorted(name for name in strange if str(Path(name).parent) not in strange)
        self.complaints += [f"{name} was left behind" for name in tops]

    def require_report(self) -> None:
        """A report can be made of the records."""
        words = ["report", BENCH.out, "--out", "report", "--format", "csv"]
        ended = self.ended_by_itself(wait_for(start(["-m", "homefold", *words], self.folder)))
        if ended.code != 0:
            self.complaints.append(f"no report can be made: {ended.sentence}")


class Ground:
    """The scratch folder of a campaign.

    Args:
        root: an empty folder.
        seed: decides everything random.

    Attributes:
        reported: the families in which a report has been made.
    """

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.random = root, Random(seed)
        self.reported: set[str] = set()
        self._references: dict[str, Reference] = {}
        self._trials = 0
        _save_photos(root / "photos", root / "cache")

    def trial(self, family: str, title: str) -> Trial:
        """A trial in an empty folder of its own."""
        self._trials += 1
        folder = self.root / f"{self._trials:03d}-{family}"
        folder.mkdir()
        return Trial(family, title, folder)

    def reference(self, command: Command, prepare: Callable[[Path], None] | None = None) -> Reference:
        """What the command does undisturbed; run once, with its file operations written down.

        Args:
            command: the command.
            prepare: puts into the working folder what must be there before.
        """
        name = f"reference-{command.name}{'-replacing' if prepare else ''}"
        if name not in self._references:
            self._references[name] = self._run_reference(name, command, prepare)
        return self._references[name]

    def _run_reference(self, name: str, command: Command, prepare: Callable[[Path], None] | None) -> Reference:
        folder = self.root / name
        folder.mkdir()
        if prepare is not None:
            prepare(folder)
        recorded = self.root / f"{name}.operations"
        _require_success(command, wait_for(start(recording(recorded, command.words), folder)))
        result = snapshot(folder / command.out, exact=command.exact)
        return Reference(command, result, paths_in(folder), read_recorded(recorded))

    def seconds_now(self, command: Command) -> float:
        """How long the command takes undisturbed, at the pace that the machine has now."""
        folder = self.root / "pace"
        folder.mkdir()
        ended = _require_success(command, run(command, folder))
        shutil.rmtree(folder)
        return ended.seconds

    def put_old_model(self, folder: Path) -> None:
        """Put a model of another seed where a fit with --overwrite will write."""
        old = self.root / "old"
        if not old.exists():
            old.mkdir()
            other = Command(FIT.name, (*FIT.arguments, "--seed", "1"), FIT.out, exact=True)
            _require_success(other, run(other, old))
        shutil.copytree(old / FIT.out, folder / FIT.out)

    @property
    def old_model(self) -> dict[str, str]:
        """A snapshot of the model that `put_old_model` puts there."""
        return snapshot(self.root / "old" / FIT.out, exact=True)


def _require_success(command: Command, ended: Ended) -> Ended:
    if ended.code != 0:
        raise SystemExit(f"the undisturbed {command.name} fails (exit code {ended.code}):\n{ended.err}")
    return ended


def _save_photos(folder: Path, cache: Path) -> None:
    """Some of digits-mini as files, so that images are decoded and cached."""
    digits = load_digits_mini(cache_dir=cache)
    for domain in range(_DOMAINS):
        for label in range(_CLASSES):
            place = folder / digits.domain_names[domain] / digits.class_names[label]
            place.mkdir(parents=True)
            for i in np.flatnonzero((digits.domains == domain) & (digits.labels == label))[:_IMAGES]:
                Image.fromarray(digits.images[i]).save(place / f"{i:04d}.png")
