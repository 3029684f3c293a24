"""How a command ends when it does not end well: signals, and the sentence an error gets."""

from __future__ import annotations

import errno
import os
import re
import signal
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from homefold.errors import ConfigError, HomefoldError

__all__ = ["Terminated", "UsageError", "explain", "signals_raise", "when_stopped"]

_DISK_FULL = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
# How torch and the C++ library say it, in a RuntimeError.
_NO_MEMORY = (
    "can't allocate memory",
    "not enough memory",
    "Cannot allocate memory",
    "bad_alloc",
    "size calculation overflowed",
)

_AGAIN_SECONDS = 0.05
_LONGEST_IMPORT_SECONDS = 20.0


class UsageError(ConfigError):
    """The command line makes no sense."""


class Terminated(BaseException):
    """SIGTERM came: like Ctrl-C, no error for anyone to handle on the way out."""


@contextmanager
def signals_raise() -> Iterator[None]:
    """Inside the block SIGTERM raises `Terminated`, so that files are closed and nothing half-written is left.

    It and Ctrl-C wait for the end of an import: some are called from C++, where an exception ends the process without
    a word.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    signal.signal(signal.SIGTERM, _Stop(Terminated))
    if before[signal.SIGINT] is signal.default_int_handler:  # not where Ctrl-C is ignored, as in the background
        signal.signal(signal.SIGINT, _Stop(KeyboardInterrupt))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class _Stop:
    """A handler that raises, but not amid an import, unless that takes very long."""

    def __init__(self, kind: type[BaseException]) -> None:
        self.kind = kind
        self.since: float | None = None

    def __call__(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        self.since = now if self.since is None else self.since
        may_wait = _importing(frame) and hasattr(signal, "pthread_kill")  # which Windows has not
        if not may_wait or now - self.since > _LONGEST_IMPORT_SECONDS:
            self.since = None
            raise self.kind
        main = threading.main_thread().ident
        assert main is not None
        again = threading.Timer(_AGAIN_SECONDS, signal.pthread_kill, [main, number])
        again.daemon = True
        again.start()


def _importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


@contextmanager
def when_stopped(advise: Callable[[], str]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM inside the block carry a sentence of advice, which depends on what was done by then."""
    try:
        yield
    except (KeyboardInterrupt, Terminated) as stop:
        stop.add_note(advise())
        raise


def explain(error: Exception) -> str | None:
    """The sentence for an error that a person can do something about; None for one that is a defect of ours."""
    if isinstance(error, HomefoldError):
        return str(error)
    if isinstance(error, OSError):
        return _explain_os_error(error)
    return _lacking_memory(error) or _unusable_path(error)


def _unusable_path(error: Exception) -> str | None:
    """The sentence for a path that leads nowhere, which Python reports without a class of its own."""
    text = str(error) if isinstance(error, RuntimeError) else ""
    if text.startswith("Could not determine home directory"):
        return "a path begins with ~ and the name of nobody who has a home folder here; write it out."
    if text.startswith("Symlink loop from "):
        return f"{text.removeprefix('Symlink loop from ')} is a link that leads back to itself."
    return None


def _lacking_memory(error: Exception) -> str | None:
    """The sentence for memory that could not be had; None for any other error."""
    torch = sys.modules.get("torch")
    on_device = torch is not None and isinstance(error, torch.OutOfMemoryError)
    text = " ".join(str(error).split())
    if not on_device and not isinstance(error, MemoryError) and not any(sign in text for sign in _NO_MEMORY):
        return None
    asked = re.search(r"tried to allocate (\d+) bytes", text)
    detail = f" ({int(asked[1]) / 1e9:.1f} GB at once were asked for)" if asked else f" ({text})" if text else ""
    advice = "Lower --batch-size or --image-size for a fit, or give fewer random starts for a projection"
    return f"there is not enough memory{detail}. {advice}{', or choose --device cpu' if on_device else ''}."


def _explain_os_error(error: OSError) -> str:
    names = " → ".join(str(name) for name in (error.filename, error.filename2) if name is not None)
    reason = (error.strerror or str(error)).rstrip(".")
    if error.errno in _DISK_FULL:
        return f"the disk is full: could not write {names or _unnamed()}. Free some space and try again."
    if error.errno == errno.EFBIG:
        return (
            f"{names or _unnamed()} would be larger than files may be here; raise that limit (ulimit -f), or choose "
            f"another disk."
        )
    return f"{names}: {reason}." if names else f"{reason}."


def _unnamed() -> str:
    """What could not be written where the error does not say: files of ours are named, so it is where results go."""
    try:
        kind = os.fstat(sys.stdout.fileno()).st_mode
    except (OSError, ValueError):
        return "a file"
    return "a file" if sys.stdout.isatty() or stat.S_ISFIFO(kind) else "standard output"
