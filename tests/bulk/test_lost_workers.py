"""A worker that Ray loses is begun anew, and a person reads a sentence."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from homefold.bulk.crew import Answered, Lost, Ready
from homefold.bulk.on_ray import RayCrew
from homefold.bulk.plan import Shard
from homefold.bulk.worker import Setup


class RayError(Exception):
    """What all errors of Ray's are."""


class ActorUnavailableError(RayError):
    """Ray restarts the actor."""


class FakeRay:
    """Does calls in their order; `results` has what each gives, or raises."""

    def __init__(self, results: list[Any]) -> None:
        self.results, self.options = results, list[dict[str, Any]]()
        self.exceptions = SimpleNamespace(
            RayTaskError=type("RayTaskError", (RayError,), {}),
            RayError=RayError,
            ActorUnavailableError=ActorUnavailableError,
        )
        self.calls = 0

    def put(self, value: object) -> object:
        return value

    def remote(self, **resources: object) -> Any:
        return lambda kind: SimpleNamespace(remote=self._actor)

    def _actor(self, setup: Setup) -> SimpleNamespace:
        ready = SimpleNamespace(options=lambda **options: (self.options.append(options), self._call())[1])
        return SimpleNamespace(ready=ready, do=self._call())

    def _call(self) -> SimpleNamespace:
        def remote(*arguments: object) -> int:
            self.calls += 1
            return self.calls

        return SimpleNamespace(remote=remote)

    def wait(self, references: list[int], num_returns: int) -> tuple[list[int], list[int]]:
        return references[:1], references[1:]

    def get(self, reference: int) -> Any:
        result = self.results[reference - 1]
        if isinstance(result, Exception):
            raise result
        return result


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (ActorUnavailableError("RpcError: rpc_code: 14"), "its process or its machine ended, or is not reached"),
        (RayError("Out of\n memory"), "Out of memory"),
    ],
)
def test_a_lost_worker_is_begun_anew_and_waited_for(tmp_path: Path, error: Exception, reason: str):
    ray = FakeRay([{"threads": 1}, error, {"threads": 1}, (b"answers", 3)])
    crew = RayCrew(ray, SimpleNamespace(device="cpu", threads=1), tmp_path, 1)  # type: ignore[arg-type]
    assert crew.hear() == Ready(0, {"threads": 1})
    crew.ask(0, ("answer", Shard(0)))
    assert crew.hear() == Lost(0, reason)
    assert crew.hear() == Ready(0, {"threads": 1})
    crew.ask(0, ("answer", Shard(0)))
    assert crew.hear() == Answered(0, b"answers", 3)
    assert ray.options == [{"max_task_retries": -1}] * 2  # Ray asks again until the actor is back
