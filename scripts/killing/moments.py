"""Runs homefold and dies at a chosen file operation, or writes down every one of them.

A process that watches a folder from outside is always a little late. Python itself announces each file operation
before it is done, so this one can die exactly when a file appears, when half of it is written, or around a rename.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["HOWS", "Moment", "Operation", "dying_at", "limit_file_size", "read_recorded", "recording", "watch"]

HOWS = {
    "open": ("as it appears", "half written"),
    "mkdir": ("as it appears",),
    "rename": ("before", "after"),
    "remove": ("before",),
}
"""When to die at an operation."""

_TORN_AFTER_BYTES = 100
_HALF_A_LINE = b'{"dataset": "photos", "target": '
_HASH = re.compile(r"[0-9a-f]{8,}")
_OF_A_PROCESS = re.compile(r"\.\d+\.\*-\*\.")


@dataclass(frozen=True)
class Operation:
    """A file operation under the working folder.

    Args:
        event: `open` (for writing), `mkdir`, `rename` or `remove`.
        path: of what, from the working folder; the target, for a rename.
        source: what is renamed.
        flags: what it is opened with.
    """

    event: str
    path: str
    source: str = ""
    flags: int = 0

    @property
    def kind(self) -> str:
        """What it has in common with the same operation of another run, with `*` for hashes and process numbers."""
        if self.event == "remove":
            return f"remove in {_kind_of_path(str(Path(self.path).parent))}"
        names = [_kind_of_path(name) for name in (self.source, self.path) if name]
        return f"{self.event} {' → '.join(names)}"


@dataclass(frozen=True)
class Moment:
    """When to die: at the `nth` operation of a kind, counted from 1."""

    kind: str
    nth: int
    how: str

    def __str__(self) -> str:
        return f"{self.kind}, {self.how}, no. {self.nth}"


def _kind_of_path(path: str) -> str:
    return _OF_A_PROCESS.sub(".*.", _HASH.sub("*", path))


def read_recorded(path: Path) -> list[tuple[str, int]]:
    """The operations that a recording run wrote down: their kinds, and the bytes on the disk before each."""
    return [(line["kind"], line["bytes"]) for line in map(json.loads, path.read_text().splitlines())]


class _Hook:
    """Hears what Python announces and tells `act` what concerns files under `root`."""

    def __init__(self, root: Path, act: Callable[[Operation], None]) -> None:
        self.root, self.act = root, act
        self.busy = threading.local()

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        readers: dict[str, Callable[..., Operation | None]] = {
            "open": self._open,
            "os.mkdir": self._mkdir,
            "os.rename": self._rename,
            "os.remove": self._remove,
            "os.rmdir": self._remove,
        }
        reader = readers.get(event)
        if reader is None or getattr(self.busy, "now", False):
            return
        self.busy.now = True
        try:
            operation = reader(*arguments)
            if operation is not None:
                self.act(operation)
        finally:
            self.busy.now = False

    def _open(self, path: Any, mode: Any, flags: int) -> Operation | None:
        if isinstance(path, int) or not flags & (os.O_WRONLY | os.O_RDWR):
            return None
        place = self._place(path)
        return Operation("open", place, flags=flags) if place else None

    def _mkdir(self, path: Any, mode: int, dir_fd: int) -> Operation | None:
        place = self._place(path, dir_fd)
        if place is None or (self.root / place).exists() or not (self.root / place).parent.is_dir():
            return None
        return Operation("mkdir", place)

    def _rename(self, source: Any, target: Any, source_fd: int, target_fd: int) -> Operation | None:
        before, after = self._place(source, source_fd), self._place(target, target_fd)
        return Operation("rename", after, before) if before and after else None

    def _remove(self, path: Any, dir_fd: int) -> Operation | None:
        place = self._place(path, dir_fd)
        return Operation("remove", place) if place and os.path.lexists(self.root / place) else None

    def _place(self, path: Any, dir_fd: int = -1) -> str | None:
        """Where it lies under the root; None where it does not, or where that cannot be found out."""
        try:
            base = self.root if dir_fd == -1 else Path(os.readlink(f"/proc/self/fd/{dir_fd}"))
        except OSError:  # only Linux tells the folder of a descriptor
            return None
        full = Path(os.path.normpath(base / os.fsdecode(path)))
        return str(full.relative_to(self.root)) if full.is_relative_to(self.root) else None


def _recorder(root: Path, to: Path) -> Callable[[Operation], None]:
    file = to.open("w", encoding="utf-8")

    def record(operation: Operation) -> None:
        file.write(json.dumps({"kind": operation.kind, "bytes": _bytes_on_disk(root)}) + "\n")
        file.flush()

    return record


def _bytes_on_disk(root: Path) -> int:
    return sum(path.lstat().st_blocks * 512 for path in root.rglob("*"))


def _killer(root: Path, moment: Moment) -> Callable[[Operation], None]:
    seen: Counter[str] = Counter()

    def count(operation: Operation) -> None:
        seen[operation.kind] += 1
        if (operation.kind, seen[operation.kind]) == (moment.kind, moment.nth):
            _die(root, operation, moment.how)

    return count


def _die(root: Path, operation: Operation, how: str) -> None:
    """Do what still happens before the end, and end; a half-written file ends this process at its next write."""
    path = root / operation.path
    if how == "half written" and not operation.flags & os.O_APPEND:
        _die_in_the_next_write()
        return
    if how == "after":
        os.rename(root / operation.source, path)
    elif operation.event == "mkdir":
        path.mkdir()
    elif operation.event == "open":
        # A lock file that is there already is asked for once more as if it were not: that open fails, and is no matter.
        descriptor = os.open(path, operation.flags & ~os.O_EXCL, 0o666)
        # A line is appended in one write, which only a power cut can tear.
        os.write(descriptor, _HALF_A_LINE if how == "half written" else b"")
    os.kill(os.getpid(), signal.SIGKILL)


def _die_in_the_next_write() -> None:
    """The kernel ends a process that writes beyond its limit, after it wrote what fits."""
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    limit_file_size(_TORN_AFTER_BYTES)


def limit_file_size(limit: int) -> None:
    """From now on this process cannot write a file beyond so many bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))


def recording(to: Path, arguments: Iterable[str]) -> list[str]:
    """The words after `python` that run homefold and write every operation to a file."""
    return ["-m", "killing.moments", "record", str(to), *arguments]


def dying_at(moment: Moment, arguments: Iterable[str]) -> list[str]:
    """The words after `python` that run homefold until that moment."""
    return ["-m", "killing.moments", "die", json.dumps(asdict(moment)), *arguments]


def watch(action: str, what: str) -> None:
    """From now on write down the file operations of this process in its working folder, or die at one of them."""
    root = Path.cwd()
    act = _recorder(root, Path(what)) if action == "record" else _killer(root, Moment(**json.loads(what)))
    sys.addaudithook(_Hook(root, act))


def main(action: str, what: str, *arguments: str) -> int:
    """Run homefold with these arguments here, under the hook."""
    watch(action, what)
    from homefold.cli import main as homefold

    return homefold(arguments)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
