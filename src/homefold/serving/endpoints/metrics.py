"""`GET /metrics`: counts for Prometheus."""

from __future__ import annotations

from fastapi import APIRouter, Response

from homefold.serving.service import Service

__all__ = ["routes"]


def routes(service: Service) -> APIRouter:
    """What the server did so far."""
    router = APIRouter()

    @router.get("/metrics", response_class=Response)
    async def metrics() -> Response:
        return Response(service.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    return router
