"""Rules by name; every file of a folder of rules is found without being listed anywhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from importlib import import_module
from pkgutil import iter_modules
from typing import Generic, TypeVar, cast

from homefold.errors import ConfigError

__all__ = ["Rules"]

T = TypeVar("T")
R = TypeVar("R")


class Rules(Generic[T]):
    """The rules of one kind. Their files are imported when one is first asked for.

    Args:
        kind: what a rule is called in errors.
        package: whose modules hold them.
    """

    def __init__(self, kind: str, package: str) -> None:
        self.kind, self.package = kind, package
        self._known: dict[str, type[T]] = {}

    def named(self, name: str) -> Callable[[type[R]], type[R]]:
        """Register the decorated class as `name`, which must be free."""

        def keep(rule: type[R]) -> type[R]:
            if name in self._known:
                raise ConfigError(f"there already is a {self.kind} {name!r}; choose another name.")
            self._known[name] = cast(type[T], rule)
            return rule

        return keep

    def remove(self, name: str) -> None:
        """Forget the rule called `name`."""
        del self._known[name]

    def __getitem__(self, name: str) -> type[T]:
        """The rule called `name`; the error names those that there are."""
        if name not in self._found:
            raise ConfigError(f"there is no {self.kind} {name!r}; choose one of {', '.join(self)}.")
        return self._found[name]

    def __iter__(self) -> Iterator[str]:
        """All names, sorted."""
        return iter(sorted(self._found))

    @cached_property
    def _found(self) -> dict[str, type[T]]:
        for module in iter_modules(import_module(self.package).__path__):
            import_module(f"{self.package}.{module.name}")
        return self._known
