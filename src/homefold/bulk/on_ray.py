"""Workers as actors of a Ray cluster: each holds the model and decodes by itself, so Ray carries answers alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from homefold.bulk.crew import Answered, Event, Failed, Lost, Ready, Request
from homefold.bulk.plan import Shard
from homefold.bulk.worker import Setup, Worker
from homefold.errors import HomefoldError

__all__ = ["RayCrew", "cluster_workers"]

_LONGEST_REASON = 200


class _Actor:
    """A worker wherever Ray puts it. The model comes with it: other machines do not have its folder."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._worker: Worker | None = None

    def ready(self, files: dict[str, bytes]) -> dict[str, Any]:
        """Load the model from the files of its folder, and tell what it is computed on."""
        with tempfile.TemporaryDirectory() as folder:
            for name, content in files.items():
                (Path(folder) / name).write_bytes(content)
            self._worker = Worker(self._setup, Path(folder))
        return self._worker.facts()

    def do(self, what: str, shard: Shard) -> tuple[bytes, int]:
        """The file of answers, and how many images it has."""
        assert self._worker is not None
        return (self._worker.probe(shard), 0) if what == "probe" else self._worker.answer(shard)


def cluster_workers(ray: Any, threads: int, *, on_gpus: bool) -> int:
    """How many workers the cluster has room for."""
    has = ray.cluster_resources()
    return max(1, int(has.get("GPU", 0)) if on_gpus else int(has.get("CPU", 1)) // threads)


class RayCrew:
    """Actors that Ray restarts elsewhere when their process or machine is gone.

    Args:
        ray: connected.
        setup: what each is to do.
        model: the folder of the model.
        size: how many.
    """

    def __init__(self, ray: Any, setup: Setup, model: Path, size: int) -> None:
        self.size, self._ray = size, ray
        self._files = ray.put({file.name: file.read_bytes() for file in model.iterdir() if file.is_file()})
        # A request that dies with its actor is asked again by the job, which counts how often.
        resources = {"num_gpus": 1} if setup.device == "cuda" else {"num_cpus": setup.threads}
        kind = ray.remote(max_restarts=-1, max_task_retries=0, **resources)(_Actor)
        self._actors = [kind.remote(setup) for _ in range(size)]
        self._waiting: dict[Any, tuple[int, bool]] = {}
        for worker in range(size):
            self._begin(worker)

    def _begin(self, worker: int) -> None:
        # Asked again while Ray restarts the actor: until then every other request would fail at once.
        ready = self._actors[worker].ready.options(max_task_retries=-1)
        self._waiting[ready.remote(self._files)] = (worker, True)

    def ask(self, worker: int, request: Request) -> None:
        self._waiting[self._actors[worker].do.remote(*request)] = (worker, False)

    def hear(self) -> Event:
        (done, *_), _ = self._ray.wait(list(self._waiting), num_returns=1)
        worker, is_beginning = self._waiting.pop(done)
        try:
            found = self._ray.get(done)
        except self._ray.exceptions.RayTaskError as error:
            cause = error.cause if isinstance(error.cause, Exception) else error
            if is_beginning and isinstance(cause, HomefoldError):
                raise cause from None
            return self._failed(worker, cause)
        except self._ray.exceptions.RayError as error:
            self._begin(worker)
            return Lost(worker, self._why(error))
        return Ready(worker, found) if is_beginning else Answered(worker, *found)

    def _why(self, error: Exception) -> str:
        if isinstance(error, self._ray.exceptions.ActorUnavailableError):
            return "its process or its machine ended, or is not reached"
        return " ".join(str(error).split())[:_LONGEST_REASON]

    def _failed(self, worker: int, cause: Exception) -> Failed:
        return Failed(worker, str(cause) if isinstance(cause, HomefoldError) else f"{type(cause).__name__}: {cause}")

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor, no_restart=True)
