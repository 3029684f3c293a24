"""`POST /v1/predict`: the answer to one image, or to many as lines of JSON."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from homefold.runtime.json_lines import json_line
from homefold.serving.answers import Answer, AnswerLine, Failure, FailureLine, answer_fields
from homefold.serving.batching import Asked
from homefold.serving.bodies import is_multipart, read_image, read_images
from homefold.serving.refusal import CLIENT_WENT_AWAY, Refusal
from homefold.serving.service import Service
from homefold.stages.predictions import Prediction

__all__ = ["routes"]

_NDJSON = "application/x-ndjson"
_BODY = {
    "required": True,
    "content": {
        "image/*": {"schema": {"type": "string", "format": "binary"}},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "properties": {"image": {"type": "array", "items": {"type": "string", "format": "binary"}}},
            }
        },
    },
}
_REFUSALS = {
    400: "the body is damaged",
    401: "the token is missing or wrong",
    408: "the body came too slowly",
    413: "too many bytes or images",
    415: "not an image, nor multipart/form-data",
    422: "the image cannot be read, or a parameter makes no sense",
    503: "too much to do; Retry-After says when to come back",
    504: "no answer in time",
}
_RESPONSES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "one object for one image; for multipart one line an image, in order",
        "content": {_NDJSON: {"schema": {"anyOf": [AnswerLine.model_json_schema(), FailureLine.model_json_schema()]}}},
    },
    **{status: {"model": Failure, "description": about} for status, about in _REFUSALS.items()},
}


def routes(service: Service) -> APIRouter:
    """Predicting."""
    router = APIRouter()

    @router.post("/v1/predict", response_model=Answer, responses=_RESPONSES, openapi_extra={"requestBody": _BODY})
    async def predict(
        request: Request,
        projected: Annotated[bool, Query(description="bring each feature to the source manifold first")] = True,
        compare: Annotated[bool, Query(description="tell the label without projection too")] = False,
        abstain_above: Annotated[
            float | None, Query(ge=0, description="mark answers with a higher off-manifold score as abstained")
        ] = None,
    ) -> Response:
        """Label one image (its bytes as the body) or several (multipart/form-data, each part an image)."""
        if abstain_above is not None and not projected:
            raise Refusal(422, "abstain_above needs the off-manifold score, which projected=false does not give.")
        asked = Asked(projected=projected, compare=compare and projected)
        service.require_room()
        with ExitStack() as stack:
            holding = stack.enter_context(service.holding())
            if not is_multipart(request):
                image = await read_image(request, service.limits, holding)
                (task,) = service.accept([image], asked)
                return await _one(request, task, abstain_above)
            images = await read_images(request, service.limits, holding)
            tasks = service.accept(images, asked)
            stack.callback(_cancel, tasks)
            return _Lines(tasks, abstain_above, stack.pop_all())

    return router


async def _one(request: Request, task: asyncio.Task[Prediction], abstain_above: float | None) -> Response:
    """The answer as one object; nothing, if the client goes away first."""
    gone = asyncio.create_task(_until_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return Response(status_code=CLIENT_WENT_AWAY)
        fields = answer_fields(task.result(), abstain_above)
    except Refusal as refusal:
        raise Refusal(refusal.status, f"the upload {refusal.sentence}.", refusal.headers) from None
    finally:
        _cancel([task, gone])
    return Response(json_line(fields) + "\n", media_type="application/json")


async def _until_gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _cancel(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()


class _Lines(StreamingResponse):
    """A line of JSON an image, in order, each as soon as it and those before it are there.

    Args:
        tasks: one an image.
        abstain_above: as in `answer_fields`.
        held: what to let go when all is sent, or when the client went away.
    """

    def __init__(self, tasks: Sequence[asyncio.Task[Prediction]], abstain_above: float | None, held: ExitStack) -> None:
        super().__init__(self._lines(tasks, abstain_above), media_type=_NDJSON)
        self._held = held

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._held:
            await super().__call__(scope, receive, send)

    @staticmethod
    async def _lines(tasks: Sequence[asyncio.Task[Prediction]], abstain_above: float | None) -> AsyncIterator[str]:
        for row, task in enumerate(tasks):
            try:
                fields = answer_fields(await task, abstain_above)
            except Refusal as refusal:
                fields = {"error": refusal.sentence}
            yield json_line({"row": row, **fields}) + "\n"
