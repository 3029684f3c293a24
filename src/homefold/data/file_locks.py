"""Locks on open files that vanish with the process that holds them, however it ends."""

from __future__ import annotations

import sys
from typing import IO

__all__ = ["lock_exclusively", "lock_shared", "try_lock_exclusively", "unlock"]

if sys.platform == "win32":
    # Windows refuses to delete or rename a file that is mapped, which protects it as well.

    def lock_shared(file: IO[bytes]) -> None:
        """Others may read, nobody may take the exclusive lock."""

    def lock_exclusively(file: IO[bytes]) -> None:
        """Wait until nobody else holds any lock."""

    def try_lock_exclusively(file: IO[bytes]) -> bool:
        """Whether the exclusive lock could be had at once."""
        return True

    def unlock(file: IO[bytes]) -> None:
        """Give the lock back, also where a map of the file lives on."""

else:
    import fcntl

    def lock_shared(file: IO[bytes]) -> None:
        """Others may read, nobody may take the exclusive lock."""
        fcntl.flock(file, fcntl.LOCK_SH)

    def lock_exclusively(file: IO[bytes]) -> None:
        """Wait until nobody else holds any lock."""
        fcntl.flock(file, fcntl.LOCK_EX)

    def try_lock_exclusively(file: IO[bytes]) -> bool:
        """Whether the exclusive lock could be had at once."""
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(file: IO[bytes]) -> None:
        """Give the lock back, also where a map of the file lives on."""
        fcntl.flock(file, fcntl.LOCK_UN)
