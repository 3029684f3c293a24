"""`POST /v1/check`: will the model hold up on images that nobody labelled?"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from homefold.runtime.json_lines import json_line
from homefold.serving.answers import Failure
from homefold.serving.bodies import is_multipart, read_images
from homefold.serving.refusal import Refusal
from homefold.serving.service import Service
from homefold.stages.check_words import HOW_WRONG, estimates_of, facts_of, headline
from homefold.stages.source_images import SourceImages

__all__ = ["routes"]

_PARTS = {"type": "object", "properties": {"image": {"type": "array", "items": {"type": "string", "format": "binary"}}}}
_BODY = {"required": True, "content": {"multipart/form-data": {"schema": _PARTS}}}
_REFUSALS: dict[int | str, dict[str, Any]] = {415: {"model": Failure, "description": "not multipart/form-data"}}


class Check(BaseModel):
    """What `homefold check --json` tells, and the same in words."""

    model_config = ConfigDict(extra="allow")

    rows: list[int] = Field(description="the images of the request that could be read; the others are left out")
    headline: str
    facts: dict[str, str]
    estimates: list[tuple[str, str]]
    how_wrong: str
    next: list[str] = Field(description="what to do, the most pressing first")


def routes(service: Service) -> APIRouter:
    """Checking."""
    router = APIRouter()

    @router.post("/v1/check", response_model=Check, responses=_REFUSALS, openapi_extra={"requestBody": _BODY})
    async def check(request: Request) -> Response:
        """Estimate the accuracy on several images without labels (multipart/form-data, each part an image)."""
        if not is_multipart(request):
            raise Refusal(415, "images to check are sent as multipart/form-data, each in a part of its own.")
        service.require_room()
        with service.holding() as holding:
            images = await read_images(request, service.limits, holding)
            sources = None if service.explorer is None else await service.explorer.sources()
            return await service.with_all_pixels(images, partial(checked, sources))

    def checked(sources: SourceImages | None, pixels: np.ndarray, rows: list[int]) -> Response:
        found = service.model.check(pixels, sources=sources)
        told = {
            "rows": rows,
            "headline": headline(found),
            "facts": facts_of(found),
            "estimates": estimates_of(found),
            "how_wrong": HOW_WRONG,
        }
        return Response(json_line({**told, **found.as_dict()}) + "\n", media_type="application/json")

    return router
