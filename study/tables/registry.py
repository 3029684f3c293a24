"""Every table by the name that stands in a page."""

from __future__ import annotations

from collections.abc import Callable

TABLES: dict[str, Callable[[], str]] = {}


def table(name: str) -> Callable[[Callable[[], str]], Callable[[], str]]:
    """Registers what makes a table."""

    def register(make: Callable[[], str]) -> Callable[[], str]:
        TABLES[name] = make
        return make

    return register
