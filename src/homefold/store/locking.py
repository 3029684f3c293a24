"""Locks between processes that end with the process that holds them, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout, lock_descriptor, unlock_descriptor

__all__ = ["claimed", "locked", "locked_beside"]


@contextmanager
def locked(descriptor: int, *, wait: bool = True) -> Iterator[bool]:
    """Hold the lock of an open file or folder inside the block, and say whether it is held.

    Without `wait` the block may run while somebody else holds the lock, and is told so.
    """
    held = lock_descriptor(descriptor, blocking=wait)
    try:
        yield held
    finally:
        if held:
            unlock_descriptor(descriptor)


@contextmanager
def claimed(path: Path, *, wait: bool) -> Iterator[bool]:
    """Hold the lock file at `path` inside the block, and delete it after; say whether it is held, as `locked` does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(path)
    try:
        lock.acquire(blocking=wait)
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        # While it is held: a waiter that gets hold of a deleted file asks again for the one at `path`.
        path.unlink(missing_ok=True)
        lock.release()


def locked_beside(path: Path) -> FileLock:
    """A lock for what lies at `path`, in a hidden file beside it that stays: for `with`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return FileLock(path.with_name(f".{path.name}.lock"))
