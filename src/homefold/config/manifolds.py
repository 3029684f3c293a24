"""Manifolds by name: one record each, registered in the file that fits it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from homefold.runtime.registry import Registry

__all__ = ["MANIFOLDS", "ManifoldRecord", "manifold_named"]

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True)
class ManifoldRecord:
    """What there is to know of a kind of manifold.

    Args:
        build: from its settings, the size of a feature and that of the bank to one into which a saved state loads.
        fit: from settings and features to a manifold that is frozen and has a report; see `fit_manifold`.
        epochs: where the settings name none.
        learning_rate: where the settings name none.
        has_settings: whether any setting beside the kind decides what it is.
    """

    build: Callable[[Any, int, int], Any]
    fit: Callable[..., Any]
    epochs: int
    learning_rate: float
    has_settings: bool


MANIFOLDS: Registry[ManifoldRecord] = Registry("manifold", "homefold.manifold", also="or one that a plugin registers")


def manifold_named(
    name: str,
    *,
    build: Callable[[Any, int, int], Any],
    epochs: int = 0,
    learning_rate: float = 1e-3,
    has_settings: bool = True,
) -> Callable[[F], F]:
    """Register the manifold that the decorated function fits.

    Args:
        name: what people type.
        build, epochs, learning_rate, has_settings: as in `ManifoldRecord`.
    """

    def keep(fit: F) -> F:
        MANIFOLDS.add(name, ManifoldRecord(build, fit, epochs, learning_rate, has_settings), fit)
        return fit

    return keep
