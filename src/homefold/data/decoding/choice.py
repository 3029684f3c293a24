"""Who decodes: threads, or the decoder processes that all calls of one process share."""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TypeGuard

from homefold.data.archives import ArchiveImage, FileImage
from homefold.data.decoding.pool import DecoderPool
from homefold.data.index import ImageSource
from homefold.errors import ConfigError

__all__ = ["allowed_cores", "borrowed_decoders", "in_files", "shared_decoders", "start_decoders"]

_FEWEST_CORES = 4
_WORTH_STARTING = 512
_WORTH_ASKING = 64
_MOST_PROCESSES = 32


class _Shared:
    """The one pool of this process, and the right to use it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pool: DecoderPool | None = None

    @property
    def runs(self) -> bool:
        return self.pool is not None and bool(self.pool.process_ids)


_shared = _Shared()
_of_parents: list[_Shared] = []


@contextmanager
def borrowed_decoders(n: int) -> Iterator[DecoderPool | None]:
    """The decoder processes for one call that decodes `n` files; None where threads are to do it.

    With `HOMEFOLD_DECODERS=auto`, the default, they are used from four cores on: started for 512 images in one call,
    and asked for 64 while they run. `threads` never uses them, `processes` always. They are as many as this process may
    use cores, 32 at most. A second call at the same time uses threads.
    """
    wanted, shared = _wanted(), _shared
    if wanted == "threads" or n < 1 or not _possible() or not shared.lock.acquire(blocking=False):
        yield None
        return
    try:
        fewest = _WORTH_ASKING if shared.runs else _WORTH_STARTING
        if wanted == "auto" and (n < fewest or allowed_cores() < _FEWEST_CORES):
            yield None
            return
        if shared.pool is None or shared.pool.closed:
            shared.pool = DecoderPool(min(allowed_cores(), _MOST_PROCESSES))
        yield shared.pool
    finally:
        shared.lock.release()


def start_decoders(n: int) -> None:
    """Start the decoder processes that a call for `n` files would start, and do not wait for them."""
    with borrowed_decoders(n) as decoders:
        if decoders is not None:
            decoders.start()


def shared_decoders() -> DecoderPool | None:
    """The pool that calls share, once one has started it."""
    return _shared.pool


def in_files(sources: Sequence[ImageSource]) -> TypeGuard[Sequence[FileImage | ArchiveImage]]:
    """Whether all are files or members of archives, which another process finds by their names."""
    return all(type(source) in (FileImage, ArchiveImage) for source in sources)


def allowed_cores() -> int:
    """The cores that this process may run on, or its part of them where torchrun started several here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    together = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, cores // max(1, int(together))) if together.isdecimal() else cores


def _wanted() -> str:
    value = os.environ.get("HOMEFOLD_DECODERS") or "auto"
    if value not in ("auto", "threads", "processes"):
        raise ConfigError(f"HOMEFOLD_DECODERS must be one of auto, threads, processes; got {value!r}.")
    return value


def _possible() -> bool:
    """Whether files can be handed to another process, and `sys.executable` is an interpreter and not some program."""
    interpreter = "python" in os.path.basename(sys.executable or "").lower()
    return os.name == "posix" and interpreter and not getattr(sys, "frozen", False)


def _close() -> None:
    if _shared.pool is not None:
        _shared.pool.close()


def _begin_anew() -> None:
    """After a fork: the processes are the parent's, and so are their pipes."""
    global _shared
    # Kept, because what is thrown away closes its pipes.
    _of_parents.append(_shared)
    _shared = _Shared()


atexit.register(_close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
