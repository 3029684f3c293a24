"""How much one client, and all of them together, may ask of the server."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """What is refused before it costs memory or time.

    Args:
        body_bytes: one request's body.
        images: one request's images.
        megapixels: one image; its header is read first, so that a larger one is never decoded.
        waiting: images of all requests that were accepted and have no answer yet.
        held_bytes: bodies of all requests in memory at once.
        connections: open at once.
        head_seconds: from the first byte of a request to the end of its headers.
        body_seconds: from there to the end of its body.
        answer_seconds: from there to the last answer.
        write_seconds: a client may leave an answer unread.
        gather_seconds: an image waits for others that are on their way, so that they are computed together.
        batch: images computed together at most.
    """

    body_bytes: int = 64 << 20
    images: int = 256
    megapixels: float = 50.0
    waiting: int = 512
    held_bytes: int = 512 << 20
    connections: int = 512
    head_seconds: float = 10.0
    body_seconds: float = 60.0
    answer_seconds: float = 120.0
    write_seconds: float = 60.0
    gather_seconds: float = 0.003
    batch: int = 64
