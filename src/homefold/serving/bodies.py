"""The body of a request, read into memory within its limits; nothing of it ever lies on disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from fastapi import Request
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

if TYPE_CHECKING:
    from python_multipart.multipart import MultipartCallbacks

from homefold.serving.limits import Limits
from homefold.serving.refusal import Refusal

__all__ = ["HeldBytes", "is_multipart", "read_image", "read_images"]

_OTHER_KINDS = ("application/json", "text/html", "application/xml")


class HeldBytes:
    """The memory that bodies take, of all requests together.

    Args:
        most: bytes.
    """

    def __init__(self, most: int) -> None:
        self._most, self.held = most, 0

    def take(self, size: int) -> None:
        """Count bytes in; raises `Refusal` where there is no room for them."""
        if self.held + size > self._most:
            raise Refusal(503, "the server holds as many uploads as it can; try again.", {"Retry-After": "1"})
        self.held += size

    def give_back(self, size: int) -> None:
        """Count bytes out."""
        self.held -= size


class Holding:
    """What one request holds of `HeldBytes`, given back when it is closed."""

    def __init__(self, held: HeldBytes) -> None:
        self._held, self._size = held, 0

    def take(self, size: int) -> None:
        """Count bytes in."""
        self._held.take(size)
        self._size += size

    def close(self) -> None:
        """Count all of them out."""
        self._held.give_back(self._size)
        self._size = 0


def is_multipart(request: Request) -> bool:
    """Whether the body has parts; otherwise it is one image."""
    return request.headers.get("content-type", "").lower().startswith("multipart/")


async def read_image(request: Request, limits: Limits, holding: Holding) -> bytes:
    """The body as it is."""
    _require_plain(request)
    kind = request.headers.get("content-type", "").lower()
    if kind.startswith(_OTHER_KINDS):
        raise Refusal(
            415, f"{kind.partition(';')[0]} is no image: send the bytes of an image file, or multipart/form-data."
        )
    async with _in_time(limits):
        return b"".join([chunk async for chunk in _chunks(request, limits, holding)])


async def read_images(request: Request, limits: Limits, holding: Holding) -> list[bytes]:
    """The content of every part of a multipart body, in order."""
    _require_plain(request)
    kind, options = parse_options_header(request.headers["content-type"])
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise Refusal(415, "several images are sent as multipart/form-data with a boundary, each in a part of its own.")
    parts = _Parts(limits.images)
    try:
        parser = MultipartParser(options[b"boundary"], parts.callbacks())
        async with _in_time(limits):
            async for chunk in _chunks(request, limits, holding):
                parser.write(chunk)
    except FormParserError as error:
        raise Refusal(400, f"the multipart body is damaged ({str(error).rstrip('.')}).") from None
    if not parts.is_whole:
        raise Refusal(400, "the multipart body is cut off: its last boundary is missing.")
    if not parts.contents:
        raise Refusal(422, "there is nothing to predict: no image was given.")
    return [bytes(content) for content in parts.contents]


class _Parts:
    """Takes the parts as the parser finds them."""

    def __init__(self, most: int) -> None:
        self._most = most
        self.contents: list[bytearray] = []
        self.is_whole = False

    def callbacks(self) -> MultipartCallbacks:
        return {"on_part_begin": self._begin, "on_part_data": self._data, "on_end": self._end}

    def _begin(self) -> None:
        if len(self.contents) == self._most:
            raise Refusal(413, f"one request may hold {self._most} images; send the others in further requests.")
        self.contents.append(bytearray())

    def _data(self, data: bytes, start: int, end: int) -> None:
        self.contents[-1] += data[start:end]

    def _end(self) -> None:
        self.is_whole = True


def _require_plain(request: Request) -> None:
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Refusal(
            415, "bodies must be sent as they are, without Content-Encoding: image files are compressed already."
        )


async def _chunks(request: Request, limits: Limits, holding: Holding) -> AsyncIterator[bytes]:
    """The body as it comes, for as long as it stays within its limits."""
    too_large = Refusal(
        413, f"the body has more than {limits.body_bytes / 2**20:,.3g} MiB; shrink the image, or send fewer at once."
    )
    declared = request.headers.get("content-length", "0")
    if declared.isdecimal() and int(declared) > limits.body_bytes:
        raise too_large
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limits.body_bytes:
            raise too_large
        holding.take(len(chunk))
        yield chunk


@asynccontextmanager
async def _in_time(limits: Limits) -> AsyncIterator[None]:
    try:
        async with asyncio.timeout(limits.body_seconds):
            yield
    except TimeoutError:
        raise Refusal(408, f"the body did not arrive within {limits.body_seconds:g} s.") from None
