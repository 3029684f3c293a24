"""Processes that decode images for all calls of one process, where that pays: as many as there are cores.

Threads of one process hold each other up beyond a few cores. A decoder is a fresh interpreter that imports
`decoding/process.py` and nothing of the program that started it; batches of file names go to its standard input, and
pixels come from its standard output.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import threading
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BufferedReader
from pathlib import Path
from typing import Self

import numpy as np

from homefold.data.decoding.image import Resize
from homefold.data.decoding.process import LEFT, PIXELS, Batch
from homefold.data.index import Decodable, LoadRequest
from homefold.errors import ConfigError
from homefold.runtime.progress import Task

__all__ = ["DecoderPool", "allowed_cores", "borrowed_decoders", "start_decoders"]

_FEWEST_CORES = 4
_WORTH_STARTING = 512
_WORTH_ASKING = 64
_MOST_PROCESSES = 32
_IDLE_SECONDS = 60.0
_LARGEST_BATCH = 8
_BATCHES_EACH = 8  # at least so many for each process, so that none waits long for the last one
_IN_FLIGHT = 2  # one is decoded while the next is on its way
_BEGIN = (
    "import sys; sys.path[:] = sys.argv[2:]; from homefold.data.decoding.process import main; main(float(sys.argv[1]))"
)
# Numpy's libraries would start a thread for each core in every process, to do nothing.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class DecoderPool:
    """Decoder processes that wait for work; a process that has waited long ends, and is started anew when needed.

    One call at a time, which holds the `lock`. Closing ends the processes at once, and so does the end of the process
    that started them. Without a number they are as many as this process may use cores, 32 at most.
    """

    def __init__(self, processes: int | None = None, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self.lock = threading.Lock()
        self._wanted, self._idle_seconds = processes, idle_seconds
        self._decoders: list[_Decoder] = []
        self._lost = 0
        self._warned = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def process_ids(self) -> tuple[int, ...]:
        """Those of the processes that run."""
        return tuple(decoder.process.pid for decoder in self._decoders if decoder.process.poll() is None)

    def start(self) -> int:
        """Start the processes that are missing, but none in place of one that crashed; returns how many there are."""
        for decoder in [decoder for decoder in self._decoders if decoder.process.poll() is not None]:
            self._remove(decoder)
        wanted = self._wanted or min(allowed_cores(), _MOST_PROCESSES)
        while (missing := wanted - self._lost - len(self._decoders)) > 0:
            try:
                self._decoders.append(_Decoder(self._idle_seconds))
            except OSError as error:
                self._lost += missing
                self._warn(f"no more decoder processes can be started ({error.strerror or error})")
        return len(self._decoders)

    def close(self) -> None:
        """End all processes."""
        self._kill()
        for decoder in self._decoders:
            decoder.close()
        self._decoders = []

    def decode_into(
        self,
        images: np.ndarray,
        sources: Sequence[Decodable],
        rows: Sequence[int],
        request: LoadRequest,
        task: Task,
    ) -> list[int]:
        """Decode each source into its row of `images` `(n, height, width, 3)`, and tell the progress to `task`.

        Returns:
            The places in `sources` of what the processes did not do, which is left to the caller. Bad images are among
            them: whether one is bad depends on the program's settings of Pillow, which the processes do not have.
        """
        if not self.start():
            return list(range(len(sources)))
        how = (images.shape[1], images.shape[2]), request.resize, request.max_megapixels, _current_folder()
        at_once = max(1, min(_LARGEST_BATCH, len(rows) // (len(self._decoders) * _BATCHES_EACH)))
        starts = range(0, len(rows), at_once)
        pending = deque(range(start, min(start + at_once, len(rows))) for start in starts)
        job = _Job(images, sources, rows, how, task, pending)
        for decoder in self._drive_all(job):
            self._remove(decoder)
        job.left.extend(place for batch in job.pending for place in batch)
        return sorted(job.left)

    def _drive_all(self, job: _Job) -> list[_Decoder]:
        """Have all processes work on the job, a thread to each; returns those that failed."""
        executor = ThreadPoolExecutor(len(self._decoders), thread_name_prefix="homefold-decoders")
        try:
            return [decoder for decoder in executor.map(job.drive, self._decoders) if decoder is not None]
        except BaseException:
            # Such as Ctrl-C: the pipes end with the processes, and with the pipes the threads.
            job.pending.clear()
            self._kill()
            executor.shutdown()
            self.close()
            raise
        finally:
            executor.shutdown()

    def _kill(self) -> None:
        for decoder in self._decoders:
            decoder.process.kill()

    def _remove(self, decoder: _Decoder) -> None:
        self._decoders.remove(decoder)
        code = decoder.close()
        # One that had nothing to do ended of its own accord.
        if code != 0:
            self._lost += 1
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            self._warn(f"a decoder process ended ({how})")

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{what}; what it did not do is decoded in threads. HOMEFOLD_DECODERS=threads does without processes.",
                RuntimeWarning,
                stacklevel=4,
            )


@dataclass(eq=False)
class _Job:
    """One call: batches that nobody has taken yet, and what came of the others."""

    images: np.ndarray
    sources: Sequence[Decodable]
    rows: Sequence[int]
    how: tuple[tuple[int, int], Resize, float, str | None]
    task: Task
    pending: deque[range]
    left: list[int] = field(default_factory=list)
    reporting: threading.Lock = field(default_factory=threading.Lock)

    def drive(self, decoder: _Decoder) -> _Decoder | None:
        """Have a process decode batches until none is left; returns the process if it failed."""
        in_flight: deque[range] = deque()
        while True:
            try:
                while len(in_flight) < _IN_FLIGHT and (batch := self._take()):
                    in_flight.append(batch)
                    decoder.send(Batch([self.sources[place] for place in batch], *self.how))
                if not in_flight:
                    return None
                left = [place for place in in_flight[0] if not decoder.receive(self.images[self.rows[place]])]
            # It ended: no more can be written, or nothing comes.
            except (OSError, EOFError):
                self.left.extend(place for batch in in_flight for place in batch)
                return decoder
            self.left.extend(left)
            with self.reporting:
                self.task.advance(len(in_flight.popleft()) - len(left))

    def _take(self) -> range | None:
        try:
            return self.pending.popleft()
        except IndexError:
            return None


class _Decoder:
    """One decoder process and its pipes."""

    def __init__(self, idle_seconds: float) -> None:
        places = [place for place in sys.path if place]
        home = str(Path(__file__).parents[3])
        if home not in places:
            places.append(home)
        # A fresh interpreter: a fork would inherit CUDA's state, `multiprocessing` would run the user's script again.
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-W", "ignore", "-c", _BEGIN, str(idle_seconds), *places],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | _ONE_THREAD,
            # Ctrl-C is for the process that started it, which ends it.
            process_group=0,
        )
        assert self.process.stdin is not None
        assert isinstance(self.process.stdout, BufferedReader)
        self._batches, self._pixels = self.process.stdin, self.process.stdout
        # One that ended of its own accord does not stay as a zombie.
        self.reaper = threading.Thread(target=self.process.wait, name="homefold-reaper", daemon=True)
        self.reaper.start()

    def send(self, batch: Batch) -> None:
        # Not through a buffer, whose rest a fork of this process would send a second time.
        message = memoryview(pickle.dumps(batch))
        while message:
            message = message[os.write(self._batches.fileno(), message) :]

    def receive(self, image: np.ndarray) -> bool:
        """Take the next image in; False where the process could not decode it."""
        said = self._pixels.read(1)
        if said not in (PIXELS, LEFT) or (said == PIXELS and self._pixels.readinto(image.data) < image.nbytes):
            raise EOFError
        return said == PIXELS

    def close(self) -> int:
        """Wait for the end of a process that has been ended, or failed; returns its exit code."""
        self._batches.close()
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._pixels.close()
        return code


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


_shared = DecoderPool()
_of_parents: list[DecoderPool] = []


@contextmanager
def borrowed_decoders(n: int) -> Iterator[DecoderPool | None]:
    """The decoder processes for one call that decodes `n` files; None where threads are to do it.

    With `HOMEFOLD_DECODERS=auto`, the default, they are used from four cores on: started for 512 images in one call,
    and asked for 64 while they run. `threads` never uses them, `processes` always. A second call at the same time uses
    threads.
    """
    how, pool = os.environ.get("HOMEFOLD_DECODERS") or "auto", _shared
    if how not in ("auto", "threads", "processes"):
        raise ConfigError(f"HOMEFOLD_DECODERS must be one of auto, threads, processes; got {how!r}.")
    if how == "threads" or n < 1 or not _possible() or not pool.lock.acquire(blocking=False):
        yield None
        return
    try:
        fewest = _WORTH_ASKING if pool.process_ids else _WORTH_STARTING
        pays = n >= fewest and allowed_cores() >= _FEWEST_CORES
        yield pool if pays or how == "processes" else None
    finally:
        pool.lock.release()


def start_decoders(n: int) -> None:
    """Start the decoder processes that a call for `n` files would start, and do not wait for them."""
    with borrowed_decoders(n) as decoders:
        if decoders is not None:
            decoders.start()


def allowed_cores() -> int:
    """The cores that this process may run on, or its part of them where torchrun started several here."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    together = os.environ.get("LOCAL_WORLD_SIZE", "")
    return max(1, cores // max(1, int(together))) if together.isdecimal() else cores


def _possible() -> bool:
    """Whether files can be handed to another process, and `sys.executable` is an interpreter and not some program."""
    interpreter = "python" in os.path.basename(sys.executable or "").lower()
    return os.name == "posix" and interpreter and not getattr(sys, "frozen", False)


def _begin_anew() -> None:
    """After a fork: the processes are the parent's, and so are their pipes."""
    global _shared
    # Kept, because what is thrown away closes its pipes.
    _of_parents.append(_shared)
    _shared = DecoderPool()


atexit.register(lambda: _shared.close())
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)
