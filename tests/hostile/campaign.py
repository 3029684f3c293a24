"""What a hostile case is, and the rules that every one of them is held to."""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from homefold import Homefold, ManifoldProjector
from homefold.cli import main
from homefold.errors import HomefoldError

ANSWERED, REFUSED, USAGE = "answered", "refused with a sentence", "usage error"
ANSWER, REFUSAL = frozenset({ANSWERED}), frozenset({REFUSED})
EITHER, NO = ANSWER | REFUSAL, frozenset({REFUSED, USAGE})
ANY = EITHER | NO

Snapshot = dict[str, tuple[Any, ...]]

SECONDS_ALLOWED = 60
_TOO_LONG = f"took more than {SECONDS_ALLOWED} s"
_MEMORY_ALLOWED = 3 << 30
_FAST_ONE_OF, _FAST_INSTALLED_ONE_OF, _INSTALLED_ONE_OF = 10, 30, 12


@dataclass(frozen=True)
class Command:
    """Words after `homefold`.

    Args:
        words: as they would be typed.
        out: the output that they name; nothing else may change.
        mentions: what a refusal must name, however its words are joined.
    """

    words: tuple[object, ...]
    out: Path | None = None
    mentions: str = ""


@dataclass(frozen=True)
class Call:
    """A call of the library.

    Args:
        function: what is called.
        out: the output that it names; nothing else may change.
        errors: what it may raise beside homefold's own errors, by the conventions it follows.
        mentions: as in `Command`.
    """

    function: Callable[[], object]
    out: Path | None = None
    errors: tuple[type[Exception], ...] = ()
    mentions: str = ""


@dataclass(frozen=True)
class Scene:
    """What cases start from; `place` is theirs alone, the rest is shared and not to be changed.

    Args:
        place: an empty folder, the working directory of the case, alone in a folder that is watched too. Whatever a
            case may be written to lies in it: these cases try what destroys.
        model: a fitted `Homefold`.
        projector: a fitted `ManifoldProjector`.
        photos: a folder of domains.
        runs: a folder that a benchmark left.
        unfinished: what a fit to `model` that was stopped left beside it.
        same_fit: the words of that fit.
        homefold: `model` in memory.
        features: `projector` in memory.
    """

    place: Path
    model: Path
    projector: Path
    photos: Path
    runs: Path
    unfinished: Path
    same_fit: tuple[object, ...]
    homefold: Homefold
    features: ManifoldProjector

    def copy(self, original: Path) -> Path:
        """A copy in `place` that a case may damage."""
        return Path(shutil.copytree(original, self.place / original.name))

    @property
    def image(self) -> Path:
        """One good image."""
        return self.photos / "night" / "across" / "00.png"


@dataclass(frozen=True)
class Case:
    """One line of the campaign.

    Args:
        family: the table it stands in.
        name: what is odd about the input.
        road: the command or call that meets it.
        arrange: lays out the input and says what to run.
        expected: the kinds of answer that are right.
        installed: run the installed command in a process of its own.
    """

    family: str
    name: str
    road: str
    arrange: Callable[[Scene], Command | Call]
    expected: frozenset[str]
    installed: bool = False

    @property
    def id(self) -> str:
        """By which the case can be run alone."""
        return f"{self.family}:{self.name}@{'installed-' if self.installed else ''}{self.road}"

    @property
    def fast(self) -> bool:
        """Whether it is one of the tenth that every test run has."""
        return _chance(self.id, _FAST_INSTALLED_ONE_OF if self.installed else _FAST_ONE_OF) == 0


def with_installed(cases: list[Case]) -> list[Case]:
    """The cases, and a few of those of the command line once more through the installed command."""
    commands = [case for case in cases if not case.road.startswith("library")]
    again = [case for case in commands if _chance(case.id, _INSTALLED_ONE_OF) == 1]
    return [*cases, *(replace(case, installed=True) for case in again)]


def _chance(name: str, sides: int) -> int:
    """A die that falls the same way for a name every time."""
    return zlib.crc32(name.encode()) % sides


class TookTooLong(BaseException):
    """No error for anyone to handle on the way out."""


@dataclass(frozen=True)
class Ended:
    """How a case ended.

    Args:
        verdict: the kind of answer; for an ending that the rules do not allow, what is wrong with it.
        said: all that it said.
        sentence: what it said of an error.
    """

    verdict: str
    said: str
    sentence: str = ""


def run(case: Case, scene: Scene) -> str:
    """Run one case and hold it to every rule; the verdict."""
    act = case.arrange(scene)
    watched = scene.place.parent
    before = snapshot(watched)
    try:
        ended = _met(case, act, scene)
    finally:
        _let_readers_go(watched)
    faults = []
    if ended.verdict not in case.expected:
        faults.append(f"{ended.verdict}; expected: {' or '.join(sorted(case.expected))}")
    if ended.verdict == REFUSED and _plain(act.mentions) not in _plain(ended.sentence):
        faults.append(f"the sentence does not name {act.mentions}")
    faults += _changes(before, snapshot(watched), act, scene.place, ended.verdict == ANSWERED)
    told = f"{'; '.join(faults)}\n{ended.said[-3000:]}".encode(errors="backslashreplace").decode()
    assert not faults, told
    return ended.verdict


def _met(case: Case, act: Command | Call, scene: Scene) -> Ended:
    if isinstance(act, Call):
        return _called(act, scene.place)
    words = [os.fsdecode(word) if isinstance(word, bytes) else str(word) for word in act.words]
    return _installed(words, scene.place) if case.installed else _commanded(words, scene.place)


def _called(call: Call, place: Path) -> Ended:
    try:
        with _held(place):
            call.function()
    except (HomefoldError, *call.errors) as error:
        return Ended(REFUSED, str(error), str(error))
    except (Exception, TookTooLong) as error:
        return Ended(_raised(error), traceback.format_exc())
    return Ended(ANSWERED, "")


def _commanded(words: list[str], place: Path) -> Ended:
    # Real text streams over bytes: a name that no encoding has must fail here as it would on a terminal.
    kinds = ("strict", "backslashreplace")
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors=kind) for kind in kinds)
    verdict, failed, code = "", "", 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            with _held(place):
                code = main(words)
        except (Exception, TookTooLong) as error:
            verdict, failed = _raised(error), traceback.format_exc()
    texts = []
    for stream in (out, err):
        with contextlib.suppress(UnicodeEncodeError):
            stream.flush()
        texts.append(stream.buffer.getvalue().decode(errors="replace"))  # type: ignore[attr-defined]
    return Ended(verdict, f"{''.join(texts)}{failed}") if failed else _judged(code, *texts)


def _raised(error: BaseException) -> str:
    return _TOO_LONG if isinstance(error, TookTooLong) else f"raised {type(error).__name__}"


def _installed(words: list[str], place: Path) -> Ended:
    script = Path(sys.executable).with_name("homefold")
    program = [str(script)] if script.exists() else [sys.executable, "-m", "homefold"]
    pipe = subprocess.PIPE
    with subprocess.Popen([*program, *words], cwd=place, stdin=subprocess.DEVNULL, stdout=pipe, stderr=pipe) as process:
        clock = _Clock(process.pid)
        while (left := clock.seconds_left()) > 0:
            with contextlib.suppress(subprocess.TimeoutExpired):
                out, err = process.communicate(timeout=left)
                return _judged(process.returncode, out.decode(errors="replace"), err.decode(errors="replace"))
        process.kill()
    return Ended(_TOO_LONG, "")


class _Clock:
    """The time that a process may take: what it stands in line for a processor does not count, that is others' work."""

    def __init__(self, process: int) -> None:
        self._process, self._began, self._before = process, time.monotonic(), _seconds_in_line(process)

    def seconds_left(self) -> float:
        taken = time.monotonic() - self._began
        return SECONDS_ALLOWED - taken + _seconds_in_line(self._process) - self._before


def _seconds_in_line(process: int) -> float:
    """How long its first thread was ready to run while others ran; 0 where no system tells."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0


def _judged(code: int, out: str, err: str) -> Ended:
    """By the exit codes that `homefold.cli.main` documents, and by what was said."""
    said = f"exit code {code}\n{out}{err}"
    if "Traceback (most recent call last)" in out + err:
        return Ended("printed a traceback", said)
    if code == 0:
        return Ended(ANSWERED, said)
    if code == 2:
        return Ended(USAGE if err.strip() else "said nothing", said, err)
    # What `data verify` finds it tells on standard output, a sentence each.
    sentences = [line for line in (out + err).splitlines() if line.startswith("error: ")]
    if code != 1 or not sentences:
        return Ended(f"ended with exit code {code} and no sentence", said)
    if sentences[-1] not in out and err.splitlines()[-1] != sentences[-1]:
        return Ended("refused with a sentence of several lines", said)
    return Ended(REFUSED, said, "\n".join(sentences))


def _plain(text: str) -> str:
    return "".join(character for character in text.lower() if character.isalnum())


@contextlib.contextmanager
def _held(place: Path) -> Iterator[None]:
    """Within the time, within a bound of memory, in the case's own folder."""

    def stop(number: int, frame: object) -> None:
        if (left := clock.seconds_left()) > 0:
            signal.setitimer(signal.ITIMER_REAL, left)
            return
        _let_readers_go(place)
        raise TookTooLong

    clock = _Clock(os.getpid())

    limits, here, before = resource.getrlimit(resource.RLIMIT_AS), Path.cwd(), signal.signal(signal.SIGALRM, stop)
    taken = Path("/proc/self/statm")
    if taken.exists():
        pages = int(taken.read_text().split()[0])
        resource.setrlimit(resource.RLIMIT_AS, (pages * resource.getpagesize() + _MEMORY_ALLOWED, limits[1]))
    os.chdir(place)
    # Code that is not Python's may never come back to hear the signal: then its process goes, which is told too.
    faulthandler.dump_traceback_later(10 * SECONDS_ALLOWED, exit=True, file=sys.__stderr__)
    signal.setitimer(signal.ITIMER_REAL, SECONDS_ALLOWED)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        faulthandler.cancel_dump_traceback_later()
        signal.signal(signal.SIGALRM, before)
        os.chdir(here)
        resource.setrlimit(resource.RLIMIT_AS, limits)


def _let_readers_go(place: Path) -> None:
    """End the waiting of a thread that opened a pipe of the case: it would keep the whole session from ending."""
    for path in place.rglob("*"):
        if stat.S_ISFIFO(path.lstat().st_mode):
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK))


def snapshot(place: Path) -> Snapshot:
    """Everything below a folder, links not followed: kind, size and hash by name."""
    found: Snapshot = {}
    for folder, names, files in os.walk(place):
        for name in (*names, *files):
            path = os.path.join(folder, name)
            status = os.lstat(path)
            kind: tuple[Any, ...] = (stat.S_IFMT(status.st_mode),)
            if stat.S_ISLNK(status.st_mode):
                kind = (*kind, os.readlink(path))
            elif stat.S_ISREG(status.st_mode):
                kind = (*kind, status.st_size, hashlib.sha256(Path(path).read_bytes()).hexdigest())
            found[os.path.relpath(path, place)] = kind
    return found


def _changes(before: Snapshot, after: Snapshot, act: Command | Call, place: Path, answered: bool) -> list[str]:
    """What changed that may not, and what was left half-written."""
    changed = [name for name in {*before, *after} if before.get(name) != after.get(name)]
    out = None if act.out is None else os.path.relpath(os.path.normpath(place / act.out), place.parent)
    faults = []
    for name in sorted(changed):
        what = f"{name!r} was {'left' if name not in before else 'changed' if name in after else 'removed'}"
        if out is not None and Path(name).is_relative_to(f"{out}.unfinished"):
            faults += (
                []
                if _may_go_on(place.parent / f"{out}.unfinished", answered)
                else [f"{what}, and there is no checkpoint"]
            )
        elif out is None or not (Path(name).is_relative_to(out) or (answered and Path(out).is_relative_to(name))):
            faults.append(f"{what} outside the named output")
        elif not answered:
            faults.append(f"{what} by what was refused")
        elif Path(name).name.startswith(".") and name.endswith((".tmp", ".old")) and name in after:
            faults.append(f"{what} half-written")
    return faults


def _may_go_on(unfinished: Path, answered: bool) -> bool:
    """Whether the folder of a fit that stopped is as it should be: gone when done, kept with a checkpoint."""
    return not unfinished.exists() if answered else any(unfinished.glob("*/*.safetensors")) or not unfinished.exists()
