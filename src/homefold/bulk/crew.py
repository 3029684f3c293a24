"""What a job hears of its workers, whatever they run on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, Protocol

from homefold.bulk.plan import Shard

__all__ = ["Answered", "Crew", "Event", "Failed", "Lost", "Progressed", "Ready", "Request"]

Request = tuple[Literal["answer", "probe"], Shard]


@dataclass(frozen=True)
class Ready:
    """A worker has the model, and waits for its first request."""

    worker: int
    facts: dict[str, Any]


@dataclass(frozen=True)
class Progressed:
    """So many more images of the shard at hand are answered."""

    worker: int
    images: int


@dataclass(frozen=True)
class Answered:
    """A request is done."""

    worker: int
    content: bytes
    images: int


@dataclass(frozen=True)
class Failed:
    """A request cannot be done; the worker waits for the next."""

    worker: int
    reason: str


@dataclass(frozen=True)
class Lost:
    """A worker died, and its request with it; another begins in its place, and will say that it is ready."""

    worker: int
    reason: str


Event = Ready | Progressed | Answered | Failed | Lost


class Crew(Protocol):
    """Workers by their numbers from 0; each has one request at most."""

    size: int

    def ask(self, worker: int, request: Request) -> None:
        """Give a worker that waits something to do."""

    def hear(self) -> Event:
        """Wait for the next event. A worker that cannot begin with what it was given raises the reason."""

    def close(self) -> None:
        """End all workers, whatever they do."""
