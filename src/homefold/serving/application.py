"""The application: every endpoint over one service, behind the guard."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp

from homefold.serving.access import Access
from homefold.serving.endpoints import ENDPOINTS
from homefold.serving.guard import Guard
from homefold.serving.refusal import CLIENT_WENT_AWAY, Refusal, refused
from homefold.serving.service import Service
from homefold.version import __version__

__all__ = ["application"]

_SENTENCES = {
    404: "there is nothing here; GET /openapi.json lists what there is.",
    405: "this address takes another method; GET /openapi.json lists what there is.",
}


def application(service: Service, access: Access) -> ASGIApp:
    """All that is served.

    Args:
        service: the model at work.
        access: who may ask.
    """

    @asynccontextmanager
    async def at_work(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        yield
        await service.stop()

    # Without its own address of the description FastAPI offers no pages of documentation, which load from elsewhere.
    app = FastAPI(
        title="homefold",
        version=__version__,
        openapi_url=None,
        lifespan=at_work,
        redirect_slashes=False,
    )
    for routes in ENDPOINTS:
        app.include_router(routes(service))

    @app.get("/openapi.json", include_in_schema=False)
    async def describe() -> dict[str, Any]:
        return app.openapi()

    @app.exception_handler(Refusal)
    async def refuse(request: Request, refusal: Refusal) -> Response:
        return refused(refusal)

    @app.exception_handler(RequestValidationError)
    async def explain(request: Request, error: RequestValidationError) -> Response:
        told = "; ".join(f"{found['loc'][-1]}: {found['msg'].lower()}" for found in error.errors())
        return refused(Refusal(422, f"a parameter of the request makes no sense ({told})."))

    @app.exception_handler(HTTPException)
    async def name(request: Request, error: HTTPException) -> Response:
        sentence = _SENTENCES.get(error.status_code, f"{error.detail}.")
        return refused(Refusal(error.status_code, sentence, error.headers))

    @app.exception_handler(ClientDisconnect)
    async def forget(request: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=CLIENT_WENT_AWAY)

    @app.exception_handler(Exception)
    async def admit(request: Request, error: Exception) -> Response:
        return refused(Refusal(500, "the server failed; its own messages say why."))

    return Guard(app, access, service.limits, service.metrics)
