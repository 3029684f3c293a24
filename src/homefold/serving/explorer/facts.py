"""What the labelled images are, as the page tells it."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, Field

from homefold.serving.explorer.explorer import COLUMNS, Explorer

__all__ = ["ExplorerFacts", "explorer_facts"]


class Domain(BaseModel):
    """Where images come from."""

    name: str
    images: int
    is_source: bool = Field(description="whether the model learned from it")


class ExplorerFacts(BaseModel):
    """How far the survey is, and what it is about."""

    state: Literal["none", "working", "ready", "failed"] = Field(description="none: served without images")
    doing: str = ""
    share_done: float = 0.0
    error: str = ""
    images: int = 0
    are_thumbnails: bool = Field(default=False, description="whether they are what the model keeps, without --data")
    layout: str = ""
    classes: list[str] = Field(default=[], description="the model's, then those that only the images have")
    class_images: list[int] = Field(default=[], description="images of each class")
    domains: list[Domain] = []
    columns: list[str] = Field(default=[], description="of /v1/explorer/points, in order")


def explorer_facts(explorer: Explorer) -> ExplorerFacts:
    """How far the survey of an explorer is, and what it is about."""
    gallery = explorer.gallery
    data = gallery.dataset
    return ExplorerFacts(
        state="failed" if explorer.error else "working" if explorer.surveyed is None else "ready",
        doing=explorer.doing,
        share_done=explorer.share_done,
        error=explorer.error,
        images=len(gallery),
        are_thumbnails=gallery.are_thumbnails,
        layout=explorer.layout,
        classes=list(gallery.classes),
        class_images=[int((gallery.truth == i).sum()) for i in range(len(gallery.classes))],
        domains=[
            Domain(name=name, images=int(rows.sum()), is_source=bool(gallery.is_source[rows].any()))
            for name, rows in ((name, data.domains == i) for i, name in enumerate(data.domain_names))
        ],
        columns=list(COLUMNS),
    )
