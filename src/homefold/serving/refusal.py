"""What the server says instead of an answer: a status, and a sentence in JSON."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import Response

from homefold.runtime.json_lines import json_line

__all__ = ["CLIENT_WENT_AWAY", "Refusal", "refused"]

CLIENT_WENT_AWAY = 499
"""What is counted as the status of a request whose client did not wait; nobody receives it."""


class Refusal(Exception):
    """A request that gets no answer.

    Args:
        status: of HTTP.
        sentence: what was found, what was expected and what to do.
        headers: that go with it.
    """

    def __init__(self, status: int, sentence: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(sentence)
        self.status, self.sentence, self.headers = status, sentence, dict(headers or {})


def refused(refusal: Refusal) -> Response:
    """The response for it: `{"error": sentence}`."""
    content = json_line({"error": refusal.sentence}) + "\n"
    return Response(content, refusal.status, refusal.headers, media_type="application/json")
