"""Locks between processes that end with the process that holds them, however it ends."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix: files are still written atomically, but work may be done twice
    fcntl = None  # type: ignore[assignment]

__all__ = ["claimed", "locked"]


@contextmanager
def locked(descriptor: int, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an open file or folder inside the block, and say whether it is held.

    Args:
        descriptor: of the open file; a killed process holds no lock.
        wait: for whoever holds it; without waiting the block may run without the lock, and is told so.
    """
    if fcntl is None:
        yield True
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        yield False
        return
    try:
        yield True
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


@contextmanager
def claimed(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock file at `path` inside the block, and delete it after; say whether it is held.

    Args:
        path: of the lock file, made when it is not there.
        wait: as for `locked`.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            with locked(descriptor, wait=wait) as held:
                # Whoever held it before deleted the file that was waited for: nobody else looks there any more.
                if held and not _is_at(descriptor, path):
                    continue
                try:
                    yield held
                finally:
                    if held:
                        path.unlink(missing_ok=True)
                return
        finally:
            os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
