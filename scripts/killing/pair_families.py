"""Two processes at once: on one output, and on one cache of images."""

from __future__ import annotations

import time
from collections.abc import Iterator

from killing.commands import BENCH, FIT, Command, Ended, start, wait_for
from killing.compare import snapshot
from killing.ground import Ground, Trial

__all__ = ["in_pairs"]

_PAIRS = 5


def in_pairs(ground: Ground) -> Iterator[Trial]:
    """Both end well, or one is refused in a sentence; what they write is as if there had been one."""
    for command in (FIT, BENCH):
        reference, seconds = ground.reference(command), ground.seconds_now(command)
        for later in _later(ground, _PAIRS):
            trial = ground.trial("pairs", f"two of {command.name} on one output, {later:.0%} later")
            _run_both(trial, (command, command), later * seconds)
            trial.require_result(reference)
            trial.require_tidy(reference)
            yield trial
    seconds = ground.seconds_now(FIT)
    for later in _later(ground, _PAIRS - 2):
        yield _on_one_cache(ground, later * seconds / 2)


def _later(ground: Ground, count: int) -> list[float]:
    """When the second process starts, as shares of the time that the first takes alone: at once, and spread over it."""
    return [0.0, *((place + ground.random.random()) / (count - 1) for place in range(count - 1))]


def _on_one_cache(ground: Ground, later: float) -> Trial:
    """Both need the same images, which nobody has decoded yet."""
    reference = ground.reference(FIT)
    trial = ground.trial("pairs", f"two of fit on one cache, {later:.2f} s later")
    other = FIT.writing_to("other")
    ends = _run_both(trial, (FIT, other), later)
    if any(ended.refused for ended in ends):
        trial.complaints.append("a cache in use is no reason to refuse")
    trial.require_result(reference)
    trial.require_result(reference, other.out)
    trial.require_tidy(reference, other.out)
    _require_same_images(ground, trial)
    return trial


def _require_same_images(ground: Ground, trial: Trial) -> None:
    cached = [snapshot(folder / "cache", exact=True) for folder in (ground.root / "reference-fit", trial.folder)]
    images = [{name: digest for name, digest in found.items() if name.endswith(".npy")} for found in cached]
    if images[0] != images[1]:
        trial.complaints.append("the cache does not hold the images that one process puts there")


def _run_both(trial: Trial, commands: tuple[Command, Command], later: float) -> list[Ended]:
    """Run both, the second so many seconds later."""
    first = start(["-m", "homefold", *commands[0].words], trial.folder)
    time.sleep(later)
    second = start(["-m", "homefold", *commands[1].words], trial.folder)
    ends = [trial.ended_by_itself(wait_for(process)) for process in (first, second)]
    if not any(ended.code == 0 for ended in ends):
        trial.complaints.append("neither of the two did the work")
    return ends
