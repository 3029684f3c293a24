"""The disk is full: the command says so, leaves nothing half-written, and goes on once there is room."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from killing.commands import BENCH, FIT, Command, Ended, run
from killing.compare import paths_in
from killing.ground import Ground, Reference, Trial
from killing.moments import limit_file_size

__all__ = ["on_full_disks"]

_PAGE = 4096
_HALF_WRITTEN = (".tmp", ".old")
_BUILDING = ".building-"


def on_full_disks(ground: Ground, count: int) -> Iterator[Trial]:
    """A small disk of its own for each trial, where one may be mounted; else a limit on the size of files."""
    for command in (FIT, BENCH):
        reference = ground.reference(command)
        for size in _sizes(reference, count):
            yield _on_small_disk(ground, reference, size) if _may_mount() else _with_limit(ground, reference, size)


@cache
def _may_mount() -> bool:
    """Only the superuser may, and not in every container."""
    with TemporaryDirectory() as folder:
        try:
            _mount(Path(folder), f"size={_PAGE}")
        except (OSError, subprocess.CalledProcessError):
            return False
        subprocess.run(["umount", folder], check=True)
        return True


def _sizes(reference: Reference, count: int) -> list[int]:
    """Sizes at which the disk is full just as some file is written, evenly among all there are."""
    levels = sorted({level for kind, level in reference.operations if kind.startswith("open ") and level >= _PAGE})
    return [levels[(2 * i + 1) * len(levels) // (2 * count)] for i in range(min(count, len(levels)))]


def _on_small_disk(ground: Ground, reference: Reference, size: int) -> Trial:
    trial = ground.trial("disk", f"{reference.command.name} on a disk of {size // 1024} KiB")
    with _mounted(trial, size):
        _require_a_good_end(trial, reference, run(reference.command, trial.folder))
        _mount(trial.folder, "remount,size=1g")
        _go_on(trial, reference)
    return trial


def _with_limit(ground: Ground, reference: Reference, size: int) -> Trial:
    trial = ground.trial("disk", f"{reference.command.name} with files of at most {size // 4096} KiB")
    ended = run(reference.command, trial.folder, prepare=lambda: limit_file_size(size // 4))
    _require_a_good_end(trial, reference, ended)
    _go_on(trial, reference)
    return trial


@contextmanager
def _mounted(trial: Trial, size: int) -> Iterator[None]:
    """A disk of its own in the trial's folder; a copy of what lay on it stays."""
    disk = trial.folder
    _mount(disk, f"size={size}")
    try:
        yield
        trial.folder = Path(shutil.copytree(disk, disk.with_name(f"{disk.name}-copy")))
    finally:
        subprocess.run(["umount", str(disk)], check=True)
        disk.rmdir()


def _mount(folder: Path, options: str) -> None:
    words = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    subprocess.run(words, check=True, capture_output=True)


def _require_a_good_end(trial: Trial, reference: Reference, ended: Ended) -> None:
    """Exit code 1 and a sentence that names a file, or success: a cache that cannot be written is no reason to stop."""
    trial.ended_by_itself(ended)
    if ended.refused and not _names_a_file(ended, reference.command):
        trial.complaints.append(f"the sentence names no file: {ended.sentence}")
    torn = [name for name in paths_in(trial.folder) if name.endswith(_HALF_WRITTEN) or _BUILDING in name]
    trial.complaints += [f"{name} was left half-written" for name in torn]
    if not torn and ended.refused and reference.command is FIT and (trial.folder / FIT.out).exists():
        trial.complaints.append("a model is there although the fit failed")


def _names_a_file(ended: Ended, command: Command) -> bool:
    return any(name in (ended.sentence or "") for name in (command.out, "cache"))


def _go_on(trial: Trial, reference: Reference) -> None:
    """With room the same command ends as if nothing had happened."""
    if trial.endings[0].code != 0 and trial.ended_by_itself(run(reference.command, trial.folder)).code != 0:
        trial.complaints.append("it does not go on once there is room")
    trial.require_result(reference)
    trial.require_tidy(reference)
