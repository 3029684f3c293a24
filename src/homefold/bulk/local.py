"""Workers in processes of this machine."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from homefold.bulk.crew import Answered, Event, Failed, Lost, Progressed, Ready, Request
from homefold.bulk.worker import Setup, Worker
from homefold.errors import HomefoldError
from homefold.runtime.children import end_with_parent

__all__ = ["LocalCrew"]


class LocalCrew:
    """A process for each setup; one that dies is started anew.

    Args:
        setups: what each worker is to do.
        model: the folder of the model.
    """

    def __init__(self, setups: Sequence[Setup], model: Path) -> None:
        self.size = len(setups)
        self._setups, self._model = setups, model
        self._context = multiprocessing.get_context("spawn")
        self._at_work: dict[Connection, tuple[int, BaseProcess]] = {}
        self._lines: dict[int, Connection] = {}
        for worker in range(self.size):
            self._start(worker)

    def _start(self, worker: int) -> None:
        ours, theirs = self._context.Pipe()
        arguments = (theirs, worker, self._setups[worker], self._model)
        process = self._context.Process(target=_serve, args=arguments, name=f"homefold-bulk-{worker}", daemon=False)
        process.start()
        theirs.close()
        self._at_work[ours], self._lines[worker] = (worker, process), ours

    def ask(self, worker: int, request: Request) -> None:
        try:
            self._lines[worker].send(request)
        except OSError:  # it is dead, which `hear` will find
            return

    def hear(self) -> Event:
        line = wait(list(self._at_work))[0]
        assert isinstance(line, Connection)
        try:
            said = line.recv()
        except (EOFError, OSError):
            return self._replaced(line)
        if isinstance(said, HomefoldError):
            raise said
        event: Event = said
        return event

    def _replaced(self, line: Connection) -> Lost:
        worker, process = self._at_work.pop(line)
        line.close()
        process.join()
        self._start(worker)
        return Lost(worker, _how_it_ended(process.exitcode))

    def close(self) -> None:
        for _, process in self._at_work.values():
            process.terminate()
        for line, (_, process) in self._at_work.items():
            process.join()
            line.close()
        self._at_work = {}


def _how_it_ended(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name
        hint = "; perhaps memory ran out: take fewer --workers" if name == "SIGKILL" else ""
        return f"its process was ended by {name}{hint}"
    return f"its process ended with exit code {code}"


def _serve(line: Connection, number: int, setup: Setup, model: Path) -> None:
    """Answer requests until nobody asks any more."""
    end_with_parent()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears Ctrl-C and ends us
    try:
        worker = Worker(setup, model)
    except HomefoldError as error:
        line.send(error)
        return
    line.send(Ready(number, worker.facts()))
    while True:
        try:
            what, shard = line.recv()
        except EOFError:
            return
        try:
            if what == "probe":
                line.send(Answered(number, worker.probe(shard), 0))
            else:
                content, images = worker.answer(shard, lambda images: line.send(Progressed(number, images)))
                line.send(Answered(number, content, images))
        except BrokenPipeError:
            return
        except Exception as error:  # whatever is wrong with one shard, the others can be done
            line.send(Failed(number, _sentence(error)))


def _sentence(error: Exception) -> str:
    return str(error) if isinstance(error, HomefoldError) else f"{type(error).__name__}: {error}"
