"""What a model is, as the page tells it; no path is in it."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

from homefold.config import config_to_dict
from homefold.model import Homefold
from homefold.runtime.provenance import versions
from homefold.serving.limits import Limits
from homefold.store.files import plain_json
from homefold.store.model_card import model_card

__all__ = ["ModelFacts", "model_facts"]


class ServerLimits(BaseModel):
    """What one request may hold."""

    body_bytes: int
    images: int
    megapixels: float


class ModelFacts(BaseModel):
    """What the model is; no path is in it."""

    name: str = Field(description="of the model's folder")
    classes: list[str]
    source_domains: list[str]
    image_size: int = Field(description="pixels across and down, to which every image is brought")
    device: str
    settings: dict[str, Any]
    measured: dict[str, Any] = Field(description="on held-out source images, stage by stage")
    versions: dict[str, str]
    card: str = Field(description="the model card, as Markdown")
    limits: ServerLimits


def model_facts(model: Homefold, name: str, limits: Limits) -> ModelFacts:
    """The facts of a model.

    Args:
        model: fitted.
        name: what it is called.
        limits: of one request.
    """
    settings, measured = plain_json(config_to_dict(model.config)), plain_json(model.reports)
    # Where people keep their files is nobody's business: weights may be a file, and images left out have paths.
    settings["features"]["weights"] = settings["features"]["weights"].replace("\\", "/").rsplit("/", 1)[-1]
    images = measured.get("images", {})
    described: dict[str, Any] = {
        "classes": list(model.class_names),
        "source_domains": list(model.source_domains),
        "versions": versions(),
    }
    return ModelFacts(
        name=name,
        classes=described["classes"],
        source_domains=described["source_domains"],
        image_size=model.config.preprocessing.image_size,
        device=str(model.device),
        settings=settings,
        measured={**measured, "images": {**images, "skipped": len(images.get("skipped", ()))}},
        versions=described["versions"],
        card=_card({**described, "settings": settings, "measured": measured}),
        limits=ServerLimits(body_bytes=limits.body_bytes, images=limits.images, megapixels=limits.megapixels),
    )


def _card(description: dict[str, Any]) -> str:
    try:
        return model_card(description)
    except KeyError:  # a model of an older version may lack a figure
        return ""
