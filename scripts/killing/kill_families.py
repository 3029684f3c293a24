"""Fit and bench are killed, at random times or at a file they write, and started again to the end."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from itertools import cycle, islice, product

from killing.commands import BENCH, FIT, REPLACING_FIT, Command, Ended, run, start, wait_for
from killing.compare import snapshot
from killing.ground import Ground, Reference, Trial
from killing.moments import HOWS, Moment, dying_at

__all__ = ["at_files", "at_random_times", "in_chains", "with_signals"]

_CHAIN = 4
_DRAWS = 5
_STARTED = 0.15
"""Share of the time by which the command has begun; before that, signals meet Python alone."""


def at_random_times(ground: Ground, command: Command, kills: int) -> Iterator[Trial]:
    """Killed once, at a time drawn uniformly from that of the undisturbed run."""
    reference, seconds = ground.reference(command), ground.seconds_now(command)
    for _ in range(kills):
        trial = ground.trial(command.name, command.name)
        _stop_at_random(ground, trial, command, seconds)
        yield _finished(ground, trial, reference)


def in_chains(ground: Ground, kills: int) -> Iterator[Trial]:
    """The same command killed several times in a row before it may end."""
    for command in islice(cycle([FIT, BENCH]), -(-kills // _CHAIN)):
        reference, seconds = ground.reference(command), ground.seconds_now(command)
        trial = ground.trial("chain", command.name)
        for _ in range(_CHAIN):
            _stop_at_random(ground, trial, command, seconds)
        yield _finished(ground, trial, reference)


def at_files(ground: Ground, command: Command, rounds: int) -> Iterator[Trial]:
    """Killed at each kind of file operation: as a file appears, when half of it is there, around its renaming."""
    reference = ground.reference(command)
    moments = _moments(ground, reference, rounds)
    for moment in moments:
        trial = ground.trial(f"{command.name}-files", str(moment))
        _die_at(trial, reference, moment)
        yield _finished(ground, trial, reference)
    if command.name == "fit":
        yield from _at_files_of_the_old_model(ground, rounds)


def _at_files_of_the_old_model(ground: Ground, rounds: int) -> Iterator[Trial]:
    """From where a fit moves the model away that it replaces: one of the two must outlive the kill."""
    reference = ground.reference(REPLACING_FIT, ground.put_old_model)
    for moment in _moments(ground, reference, rounds, after=f"rename {FIT.out} → "):
        trial = ground.trial("fit-files", f"--overwrite: {moment}")
        ground.put_old_model(trial.folder)
        _die_at(trial, reference, moment)
        _require_a_model(ground, trial, reference)
        yield _finished(ground, trial, reference)


def _moments(ground: Ground, reference: Reference, rounds: int, after: str = "") -> list[Moment]:
    """Each kind of operation `rounds` times, at a random one of its occurrences and of the ways to die there.

    Args:
        ground: whose randomness is used.
        reference: has the operations.
        rounds: how often each.
        after: what the first operation begins with that counts.
    """
    kinds = [kind for kind, _ in reference.operations]
    first = next(index for index, kind in enumerate(kinds) if kind.startswith(after))
    counts = Counter(kinds)
    return [
        Moment(kind, ground.random.randint(1, counts[kind]), ground.random.choice(_hows(kind)))
        for _ in range(rounds)
        for kind in dict.fromkeys(kinds[first:])
    ]


def _hows(kind: str) -> tuple[str, ...]:
    """Nothing is ever written to a lock file, so none can be half written."""
    hows = HOWS[kind.split(" ")[0]]
    return hows[:1] if kind.endswith(".lock") else hows


def with_signals(ground: Ground, count: int) -> Iterator[Trial]:
    """Asked to stop, as by Ctrl-C or by a cluster: it says so in a line, and goes on when it is started again."""
    kinds = list(product((FIT, BENCH), ((signal.SIGTERM, 143), (signal.SIGINT, 130))))
    seconds = {command.name: ground.seconds_now(command) for command in (FIT, BENCH)}
    for command, (how, code) in islice(cycle(kinds), count):
        trial = ground.trial("signals", f"{command.name}, {how.name}")
        ended = _stop_at_random(ground, trial, command, seconds[command.name], how, earliest=_STARTED)
        if ended is not None:
            _require_farewell(trial, ended, how, code)
        yield _finished(ground, trial, ground.reference(command))


def _require_farewell(trial: Trial, ended: Ended, how: signal.Signals, code: int) -> None:
    lines = [line for line in ended.err.splitlines() if line.startswith("Stopped.")]
    if ended.code != code:
        trial.complaints.append(f"{how.name} gave exit code {ended.code} and not {code}")
    if len(lines) != 1:
        trial.complaints.append(f"{how.name} gave {len(lines)} lines that say so")


def _stop_at_random(
    ground: Ground,
    trial: Trial,
    command: Command,
    seconds: float,
    how: signal.Signals = signal.SIGKILL,
    earliest: float = 0.0,
) -> Ended | None:
    """Send a signal at a random time; None when it always came too late.

    A command that had printed its result before is begun anew in an empty folder.

    Args:
        ground: whose randomness is used.
        trial: where.
        command: what.
        seconds: that it takes undisturbed.
        how: the signal.
        earliest: the share of the time before which no signal is sent.
    """
    for _ in range(_DRAWS):
        after = ground.random.uniform(earliest, 1.0) * seconds
        ended = trial.disturbed(run(command, trial.folder, stop_after=after, how=how))
        if not ended.out:
            trial.kills += 1
            trial.title += f" after {after:.2f} s"
            return ended
        seconds = min(seconds, ended.seconds)
        trial.clear()
    return None


def _die_at(trial: Trial, reference: Reference, moment: Moment) -> None:
    words = dying_at(moment, reference.command.words)
    ended = trial.disturbed(wait_for(start(words, trial.folder)))
    if ended.code in (-signal.SIGKILL, -signal.SIGXFSZ):
        trial.kills += 1
    else:
        trial.complaints.append("it ended before that moment")


def _require_a_model(ground: Ground, trial: Trial, reference: Reference) -> None:
    """Somewhere there must be a whole model: the new one, or the old one in its place or beside it."""
    places = [trial.folder / FIT.out, *trial.folder.glob(f".{FIT.out}.*.old")]
    found = [snapshot(place, exact=True) for place in places if place.exists()]
    if not any(model in (ground.old_model, reference.result) for model in found):
        trial.complaints.append("the kill left neither the old nor the new model whole")


def _finished(ground: Ground, trial: Trial, reference: Reference) -> Trial:
    """The same command again, to the end: its result must be as if nothing had happened.

    A report takes as long as a trial, so one is made in each family; the records are the reference's in all.
    """
    trial.ended_by_itself(run(reference.command, trial.folder))
    trial.require_result(reference)
    trial.require_tidy(reference)
    if reference.command is BENCH and trial.family not in ground.reported:
        ground.reported.add(trial.family)
        trial.require_report()
    return trial
