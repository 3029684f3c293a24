"""`GET /v1/explorer…`: the labelled images of --data, or the model's thumbnails, by row number, with its answers."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Response

from homefold.serving.explorer import Explorer
from homefold.serving.explorer.explorer import Surveyed
from homefold.serving.explorer.facts import ExplorerFacts, explorer_facts
from homefold.serving.refusal import Refusal
from homefold.serving.service import Service

__all__ = ["require_explorer", "require_surveyed", "routes"]


def routes(service: Service) -> APIRouter:
    """Looking at labelled images."""
    router = APIRouter()

    @router.get("/v1/explorer")
    async def explorer() -> ExplorerFacts:
        """How far the survey is, and what it is about."""
        return ExplorerFacts(state="none") if service.explorer is None else explorer_facts(service.explorer)

    @router.get("/v1/explorer/points", response_class=Response)
    async def points() -> Response:
        """Every column of all images, one after the other, as little-endian float32."""
        return Response(require_surveyed(service).columns, media_type="application/octet-stream")

    @router.get("/v1/explorer/images/{row}", response_class=Response)
    async def image(row: Annotated[int, Path(ge=0)]) -> Response:
        """An image as the model sees it."""
        gallery = require_explorer(service).gallery
        if row >= len(gallery):
            raise Refusal(404, f"there is no row {row}: the last one is {len(gallery) - 1}.")
        content, kind = await asyncio.to_thread(gallery.picture, row)
        return Response(content, media_type=kind)

    return router


def require_explorer(service: Service) -> Explorer:
    """What was served with labelled images."""
    if service.explorer is None:
        raise Refusal(404, "this server has no labelled images: start it with --data FOLDER.")
    return service.explorer


def require_surveyed(service: Service) -> Surveyed:
    """What the survey found."""
    explorer = require_explorer(service)
    if explorer.surveyed is None:
        raise Refusal(409, f"the map is not there: {explorer.error or 'it is still being made; ask again later.'}")
    return explorer.surveyed
