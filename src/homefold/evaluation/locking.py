"""Locks between processes that end with the process that holds them, however it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

try:
    import fcntl
except ImportError:  # not a Unix: files are still written atomically, but work may be done twice
    fcntl = None  # type: ignore[assignment]

__all__ = ["locked"]


@contextmanager
def locked(descriptor: int) -> Iterator[None]:
    """Hold the lock of an open file inside the block; wait for whoever holds it. A killed process holds none."""
    if fcntl is None:
        yield
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)
