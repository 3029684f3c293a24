"""The door that every request passes: access first, safe headers on every response, a count of all of them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import MutableMapping
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from homefold.serving.access import Access
from homefold.serving.limits import Limits
from homefold.serving.metrics import Metrics
from homefold.serving.refusal import CLIENT_WENT_AWAY, refused

__all__ = ["SAFE_HEADERS", "Guard"]

SAFE_HEADERS = {
    # The page loads nothing from anywhere else; blob: is an image that the browser already has.
    "Content-Security-Policy": "default-src 'self'; img-src 'self' blob:; object-src 'none'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""On every response; none of CORS is among them, so that pages of other servers can read none."""

_DRAIN_SECONDS = 2.0
_METHODS = ("GET", "HEAD", "POST", "OPTIONS", "PUT", "DELETE", "PATCH")


class Guard:
    """Wraps the application.

    Args:
        app: what answers.
        access: who may ask.
        limits: how much of an unread body is waited for.
        metrics: where requests are counted.
    """

    def __init__(self, app: ASGIApp, access: Access, limits: Limits, metrics: Metrics) -> None:
        self._app, self._access, self._limits, self._metrics = app, access, limits, metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._limits.body_bytes)
        began = time.perf_counter()
        try:
            if (refusal := self._access.refusal(scope)) is not None:
                await refused(refusal)(scope, exchange.receive, exchange.send)
            else:
                await self._app(scope, exchange.receive, exchange.send)
        finally:
            self._metrics.requests[_route(scope), _method(scope), exchange.status] += 1
            self._metrics.request_seconds.add(time.perf_counter() - began)


class _Exchange:
    """One request and its response as they pass.

    A refusal may be decided before the body was read. A client that is still sending would be cut off without seeing
    it, so what is left of the body is received and dropped first, for a while.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, most_dropped: int) -> None:
        self._receive, self._send, self._most_dropped = receive, send, most_dropped
        self._waits_to_send = any(key == b"expect" for key, _ in scope["headers"])
        self._is_read = False
        self.status = CLIENT_WENT_AWAY

    async def receive(self) -> Message:
        message = await self._receive()
        self._is_read = message["type"] != "http.request" or not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            if self.status >= 400 and not self._is_read and not self._waits_to_send:
                await self._drop_the_rest()
            message = {**message, "headers": _safe(message.get("headers", []))}
            if self.status >= 400 and not self._is_read:
                message["headers"].append((b"connection", b"close"))
        await self._send(message)

    async def _drop_the_rest(self) -> None:
        dropped = 0
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                while not self._is_read and dropped <= self._most_dropped:
                    dropped += len((await self.receive()).get("body", b""))
        except TimeoutError:
            pass


def _safe(headers: Any) -> list[tuple[bytes, bytes]]:
    given = [(bytes(key).lower(), bytes(value)) for key, value in headers]
    names = {key for key, _ in given}
    safe = [(name.lower().encode(), value.encode()) for name, value in SAFE_HEADERS.items()]
    return [*given, *((name, value) for name, value in safe if name not in names)]


def _route(scope: MutableMapping[str, Any]) -> str:
    """The path as the application declares it: what clients ask for may be anything."""
    return str(getattr(scope.get("route"), "path", "other"))


def _method(scope: MutableMapping[str, Any]) -> str:
    return scope["method"] if scope["method"] in _METHODS else "other"
