"""`GET /healthz` and `/readyz`: is it alive, and would it accept a request? Neither needs the token."""

from __future__ import annotations

from fastapi import APIRouter

from homefold.serving.refusal import Refusal
from homefold.serving.service import Service

__all__ = ["routes"]


def routes(service: Service) -> APIRouter:
    """For those who start and stop servers."""
    router = APIRouter()

    @router.get("/healthz")
    async def alive() -> dict[str, str]:
        return {"status": "alive"}

    @router.get("/readyz")
    async def ready() -> dict[str, str]:
        if not service.is_ready:
            raise Refusal(503, "not ready: the queue is full, or the server is stopping.", {"Retry-After": "1"})
        return {"status": "ready"}

    return router
