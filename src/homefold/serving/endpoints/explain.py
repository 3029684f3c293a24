"""`POST /v1/explain`: why an image gets its answer; `GET /v1/explorer/images/{row}/explain` for one of --data."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import numpy as np
from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel, Field

from homefold.runtime.json_lines import json_line
from homefold.serving.answers import Failure
from homefold.serving.bodies import read_image
from homefold.serving.endpoints.explorer import require_explorer
from homefold.serving.explorer.explanation import Explanation, explain, usual_scores
from homefold.serving.refusal import Refusal
from homefold.serving.service import Service

__all__ = ["routes"]

_BODY = {"required": True, "content": {"image/*": {"schema": {"type": "string", "format": "binary"}}}}
_REFUSALS: dict[int | str, dict[str, Any]] = {422: {"model": Failure, "description": "the image cannot be read"}}


class UsualScores(BaseModel):
    """What off-manifold scores to expect."""

    scores: list[float] = Field(description="of held-out source features, in order")


def routes(service: Service) -> APIRouter:
    """Explaining."""
    router = APIRouter()
    usual: list[float] = []

    def explained(pixels: np.ndarray) -> dict[str, Any]:
        surveyed = None if service.explorer is None else service.explorer.surveyed
        return explain(service.model.trained, pixels[None], surveyed)[0]

    @router.post("/v1/explain", response_model=Explanation, responses=_REFUSALS, openapi_extra={"requestBody": _BODY})
    async def explain_image(request: Request) -> Response:
        """Why the image in the body gets its answer."""
        service.require_room()
        with service.holding() as holding:
            image = await read_image(request, service.limits, holding)
            try:
                found = await service.with_pixels(image, explained)
            except Refusal as refusal:
                raise Refusal(refusal.status, f"the upload {refusal.sentence}.", refusal.headers) from None
        return _json(found)

    @router.get("/v1/explorer/images/{row}/explain", response_model=Explanation)
    async def explain_row(row: Annotated[int, Path(ge=0)]) -> Response:
        """Why an image of --data gets its answer."""
        gallery = require_explorer(service).gallery
        if row >= len(gallery):
            raise Refusal(404, f"there is no row {row}: the last one is {len(gallery) - 1}.")
        pixels = await asyncio.to_thread(lambda: np.array(gallery.dataset.images[row]))
        try:
            return _json(await service.with_pixels(pixels, explained))
        except Refusal as refusal:
            raise Refusal(refusal.status, f"the image {refusal.sentence}.", refusal.headers) from None

    @router.get("/v1/explain/usual")
    async def usual_off_manifold() -> UsualScores:
        """Off-manifold scores of held-out source features."""
        if not usual:
            usual.extend(await service.batcher.on_thread(lambda: usual_scores(service.model.trained)))
        return UsualScores(scores=usual)

    return router


def _json(found: dict[str, Any]) -> Response:
    return Response(json_line(found) + "\n", media_type="application/json")
