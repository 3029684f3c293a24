"""What is served, one file each: a function from the service to its routes, listed here."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter

from homefold.serving.endpoints import about, check, explain, explorer, health, metrics, page, predict
from homefold.serving.service import Service

__all__ = ["ENDPOINTS"]

ENDPOINTS: tuple[Callable[[Service], APIRouter], ...] = (
    predict.routes,
    explain.routes,
    check.routes,
    explorer.routes,
    about.routes,
    health.routes,
    metrics.routes,
    page.routes,
)
