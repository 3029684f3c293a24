"""The process that serves: a socket, uvicorn with limits on connections, and a stop that answers what was accepted."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from homefold.errors import ConfigError
from homefold.runtime.allocation import keep_freed_memory
from homefold.serving.access import Access
from homefold.serving.application import application
from homefold.serving.limits import Limits
from homefold.serving.service import Service

__all__ = ["Place", "serve", "server_of"]


@dataclass(frozen=True)
class Place:
    """Where to listen.

    Args:
        host: name or address of this machine.
        port: 0 takes any that is free.
    """

    host: str = "127.0.0.1"
    port: int = 8765

    def listen(self) -> socket.socket:
        """A socket there; a sentence where there can be none."""
        try:
            family, *_, address = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)[0]
            return socket.create_server(address[:2], family=family, backlog=128)
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            why = "the port is taken; choose another with --port" if taken else error.strerror or str(error)
            raise ConfigError(f"nothing can listen at {self.host}, port {self.port}: {why}.") from None


def serve(service: Service, access: Access, place: Place, on_start: Callable[[str], None]) -> None:
    """Serve until SIGTERM or Ctrl-C, then answer what was accepted and end as those signals end a process.

    Args:
        service: the model at work.
        access: who may ask.
        place: where to listen.
        on_start: told the address of the page once requests are accepted.
    """
    keep_freed_memory()
    with place.listen() as listening:
        service.warm_up()
        host, port = listening.getsockname()[:2]
        on_start(f"http://{f'[{host}]' if ':' in host else host}:{port}/")
        server_of(service, access).run(sockets=[listening])


def server_of(service: Service, access: Access) -> uvicorn.Server:
    """What serves, until its `should_exit` is set."""
    limits = service.limits
    config = uvicorn.Config(
        application(service, access),
        http=type("LimitedProtocol", (_LimitedProtocol,), {"limits": limits}),
        ws="none",
        lifespan="on",
        log_level="warning",
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_graceful_shutdown=round(limits.body_seconds + limits.answer_seconds),
    )
    return _Server(config, service)


class _Server(uvicorn.Server):
    """Says that it is not ready any more as soon as it is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._service.is_stopping = True
        await super().shutdown(sockets)


class _LimitedProtocol(H11Protocol):
    """One connection, which neither keeps us waiting for headers, nor leaves answers unread, nor is one too many."""

    limits: Limits
    _clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        # The end of an answer would wait 40 ms for its beginning to be acknowledged: asyncio sets this on sockets of
        # its own making only.
        transport.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(self.connections) > self.limits.connections:
            transport.abort()
        else:
            self._give_up_after(self.limits.head_seconds)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        between_requests = self.cycle is None or self.cycle.response_complete
        if not between_requests:
            self._go_on()
        elif self._clock is None:
            self._give_up_after(self.limits.head_seconds)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._give_up_after(self.limits.write_seconds)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._go_on()

    def connection_lost(self, exc: Exception | None) -> None:
        self._go_on()
        super().connection_lost(exc)

    def _give_up_after(self, seconds: float) -> None:
        self._go_on()
        self._clock = self.loop.call_later(seconds, self.transport.abort)

    def _go_on(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None
