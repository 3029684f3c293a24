"""Processes that decode images, for as many cores as there are.

Pillow holds Python's lock while it decodes, so that threads of one process do not get beyond a few cores' worth of
images. A decoder is a fresh interpreter that imports `decoding/process.py` and nothing of the program that started it;
batches of file names go to it through a pipe, and pixels come back through memory without a name, which nobody has to
clear away.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import warnings
from collections import deque
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Self

import numpy as np

from homefold.data.archives import ArchiveImage, FileImage
from homefold.data.decoding.process import Answer, Batch, packed
from homefold.data.index import LoadRequest
from homefold.runtime.progress import Task

__all__ = ["DecoderPool"]

_IDLE_SECONDS = 60.0
_LARGEST_BATCH = 8
_BATCH_BYTES = 4 << 20  # of pixels; beyond it a batch is a single image
_BATCHES_EACH = 8  # at least so many for each process, so that none waits long for the last one
_IN_FLIGHT = 2  # one is decoded while the next is on its way
_BEGIN = (
    "import sys; sys.path[:] = sys.argv[4:]; from homefold.data.decoding.process import main; "
    "main(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]))"
)
# Numpy's libraries would start a thread for each core in every process, to do nothing.
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


class DecoderPool:
    """Decoder processes that wait for work; a process that has waited long ends, and is started anew when needed.

    One call at a time. Closing ends the processes at once, and so does the end of the process that started them.
    """

    def __init__(self, processes: int, *, idle_seconds: float = _IDLE_SECONDS) -> None:
        self._wanted, self._idle_seconds = processes, idle_seconds
        self._decoders: list[_Decoder] = []
        self._warned = False
        self._reaper: threading.Thread | None = None
        self.closed = False

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
        known = len(self._decoders)
        while not self.closed and len(self._decoders) < self._wanted:
            try:
                self._decoders.append(_Decoder(self._idle_seconds))
            except OSError as error:
                self._wanted = len(self._decoders)
                self._warn(f"no more decoder processes can be started ({error.strerror or error})")
        if begun := [decoder.process for decoder in self._decoders[known:]]:
            self._reaper = threading.Thread(target=_reap, args=(begun,), name="homefold-reaper", daemon=True)
            self._reaper.start()
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
        sources: Sequence[FileImage | ArchiveImage],
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
        job = _Job(images, sources, rows, request, len(self._decoders))
        for decoder in self._drive_all(job, task):
            self._remove(decoder)
        job.left.extend(place for batch in job.pending for place in batch)
        return sorted(job.left)

    def _drive_all(self, job: _Job, task: Task) -> list[_Decoder]:
        """Have all processes work on the job, a thread to each; returns those that failed."""
        executor = ThreadPoolExecutor(len(self._decoders), thread_name_prefix="homefold-decoders")
        try:
            drivers = [executor.submit(job.drive, decoder) for decoder in self._decoders]
            job.report(task, len(drivers))
            return [decoder for driver in drivers if (decoder := driver.result()) is not None]
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
        self.closed = True
        for decoder in self._decoders:
            decoder.process.kill()

    def _remove(self, decoder: _Decoder) -> None:
        self._decoders.remove(decoder)
        code = decoder.close()
        # One that had nothing to do ended of its own accord.
        if code != 0:
            self._wanted -= 1
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


@dataclass
class _Job:
    """One call: batches that nobody has taken yet, and what came of the others."""

    images: np.ndarray
    sources: Sequence[FileImage | ArchiveImage]
    rows: Sequence[int]
    request: LoadRequest
    decoders: int
    left: list[int] = field(default_factory=list)
    _done: SimpleQueue[int | None] = field(default_factory=SimpleQueue)

    def __post_init__(self) -> None:
        self._size = int(self.images.shape[1]), int(self.images.shape[2])
        self._image_bytes = max(1, self._size[0] * self._size[1] * 3)
        evenly = len(self.rows) // (self.decoders * _BATCHES_EACH)
        self._batch = max(1, min(_LARGEST_BATCH, _BATCH_BYTES // self._image_bytes, evenly))
        starts = range(0, len(self.rows), self._batch)
        self.pending = deque(range(start, min(start + self._batch, len(self.rows))) for start in starts)

    def report(self, task: Task, drivers: int) -> None:
        """Tell the progress until every driver has ended."""
        while drivers:
            done = self._done.get()
            if done is None:
                drivers -= 1
            else:
                task.advance(done)

    def drive(self, decoder: _Decoder) -> _Decoder | None:
        """Have a process decode batches until none is left; returns the process if it failed."""
        in_flight: deque[tuple[int, range]] = deque()
        sent = 0
        try:
            decoder.reserve(_IN_FLIGHT * self._batch * self._image_bytes)
            how = self._size, self.request.resize, self.request.max_megapixels
            folder = _current_folder()
            while True:
                while len(in_flight) < _IN_FLIGHT and (batch := self._take()):
                    offset = sent % _IN_FLIGHT * self._batch * self._image_bytes
                    in_flight.append((offset, batch))
                    sources = [packed(self.sources[place]) for place in batch]
                    decoder.send(Batch(sources, *how, offset, decoder.memory_bytes, folder))
                    sent += 1
                if not in_flight:
                    return None
                answer = decoder.receive()
                self._accept(answer, decoder, *in_flight.popleft())
        # It ended: no more can be written, nothing comes, or what came was cut off.
        except (OSError, EOFError, pickle.UnpicklingError):
            self.left.extend(place for _, batch in in_flight for place in batch)
            return decoder
        finally:
            self._done.put(None)

    def _take(self) -> range | None:
        try:
            return self.pending.popleft()
        except IndexError:
            return None

    def _accept(self, answer: Answer, decoder: _Decoder, offset: int, batch: range) -> None:
        pixels = decoder.pixels(offset, (len(batch), *self._size, 3))
        for place, done, image in zip(batch, answer, pixels, strict=True):
            if done:
                self.images[self.rows[place]] = image
            else:
                self.left.append(place)
        self._done.put(sum(answer))


class _Decoder:
    """One decoder process, its pipes and its memory."""

    def __init__(self, idle_seconds: float) -> None:
        self._mapped: mmap.mmap | None = None
        with contextlib.ExitStack() as unless_it_starts:
            self._memory = _nameless_file()
            unless_it_starts.callback(os.close, self._memory)
            heard, said = os.pipe()
            self._answers = unless_it_starts.enter_context(os.fdopen(heard, "rb"))
            try:
                self.process = _start(self._memory, said, idle_seconds)
            finally:
                os.close(said)
            unless_it_starts.pop_all()

    @property
    def memory_bytes(self) -> int:
        return 0 if self._mapped is None else len(self._mapped)

    def reserve(self, size_bytes: int) -> None:
        if self.memory_bytes < size_bytes:
            os.ftruncate(self._memory, size_bytes)
            self._mapped = mmap.mmap(self._memory, size_bytes)

    def send(self, batch: Batch) -> None:
        assert self.process.stdin is not None
        # Not through a buffer, whose rest a fork of this process would send a second time.
        message = memoryview(pickle.dumps(batch))
        while message:
            message = message[os.write(self.process.stdin.fileno(), message) :]

    def receive(self) -> Answer:
        answer: Answer = pickle.load(self._answers)
        return answer

    def pixels(self, offset: int, shape: tuple[int, ...]) -> np.ndarray:
        assert self._mapped is not None
        return np.ndarray(shape, np.uint8, buffer=self._mapped, offset=offset)

    def close(self) -> int:
        """Wait for the end of a process that has been ended, or failed; returns its exit code."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            code = self.process.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._answers.close()
        os.close(self._memory)
        return code


def _start(memory: int, answers: int, idle_seconds: float) -> subprocess.Popen[bytes]:
    """A fresh interpreter: a fork would inherit CUDA's state, `multiprocessing` would run the user's script again."""
    places = [place for place in sys.path if place]
    home = str(Path(__file__).parents[3])
    if home not in places:
        places.append(home)
    return subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-c", _BEGIN, str(memory), str(answers), str(idle_seconds), *places],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        bufsize=0,
        pass_fds=(memory, answers),
        env=os.environ | _ONE_THREAD,
        # Ctrl-C is for the process that started it, which ends it.
        process_group=0,
    )


def _reap(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """See each process to its end, so that none that ended of its own accord stays as a zombie."""
    if not hasattr(os, "waitid"):
        return
    for process in processes:
        # Leaves it to be asked for its exit code, so that others may ask meanwhile; they may have been first.
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        process.poll()


def _nameless_file() -> int:
    """Descriptor of a file in memory, or where there are none of a deleted file on disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("homefold-decoder")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _current_folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None
