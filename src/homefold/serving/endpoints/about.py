"""`GET /v1/model`: what the model is, and what the server accepts."""

from __future__ import annotations

from fastapi import APIRouter

from homefold.serving.facts import ModelFacts, model_facts
from homefold.serving.service import Service

__all__ = ["routes"]


def routes(service: Service) -> APIRouter:
    """Facts that do not change while it serves."""
    router = APIRouter()
    facts = model_facts(service.model, service.name, service.limits)

    @router.get("/v1/model")
    async def model() -> ModelFacts:
        return facts

    return router
