"""`GET /` and `/page/…`: the page, files that a browser loads as they are; they hold nothing about the model."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Response

from homefold.serving.refusal import Refusal
from homefold.serving.service import Service

__all__ = ["routes"]

_KINDS = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
}


def routes(service: Service) -> APIRouter:
    """Every file of the page, read once: what is asked for is looked up by name, and no path is made of it."""
    router = APIRouter(include_in_schema=False)
    found = {name: file.read_bytes() for name, file in _files(files("homefold.serving") / "page")}

    @router.get("/")
    async def index() -> Response:
        return Response(found["index.html"], media_type=_KINDS[".html"])

    @router.get("/page/{name:path}")
    async def file(name: str) -> Response:
        if name not in found:
            raise Refusal(404, "the page has no such file.")
        return Response(found[name], media_type=_KINDS[_ending(name)])

    return router


def _files(folder: Traversable, before: str = "") -> list[tuple[str, Traversable]]:
    listed: list[tuple[str, Traversable]] = []
    for item in folder.iterdir():
        if item.is_dir():
            listed += _files(item, f"{before}{item.name}/")
        elif _ending(item.name) in _KINDS:
            listed.append((before + item.name, item))
    return listed


def _ending(name: str) -> str:
    return name[name.rfind(".") :]
