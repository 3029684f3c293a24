"""Undoing what a test registered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from homefold.runtime import plugins
from homefold.runtime.registry import Registry


@contextmanager
def forgetting() -> Iterator[None]:
    """What is registered and imported as a plugin inside is gone after it."""
    before = {registry: dict(registry._things) for registry in Registry._all}
    path = list(sys.path)
    try:
        yield
    finally:
        Registry.restore(before)
        forget_plugins()
        sys.path[:] = path


def forget_plugins() -> None:
    """Plugins are read again when they are named again."""
    for name in [name for name in sys.modules if name.startswith(("homefold_plugin_", "beside_"))]:
        del sys.modules[name]
    plugins._plugins.clear()
