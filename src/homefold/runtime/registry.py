"""Things of one kind by name, each registered in its own file; an unknown name gets a sentence with those there are."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Generic, TypeVar

from homefold.errors import ConfigError, shown
from homefold.runtime.code import Origin, is_own, remember_code

__all__ = ["Registry"]

T = TypeVar("T")
R = TypeVar("R")


class Registry(Generic[T]):
    """The things of one kind by name. Their files are imported when one is first asked for.

    Args:
        kind: what one is called in errors, as in "there is no manifold 'x'".
        *places: modules that register some; of a package, all its files.
        order: sorts the things; by name where None.
        also: what else can be chosen, for the error, as in "or timm:NAME".
        error: that an unknown name raises.

    >>> colours: Registry[str] = Registry("colour")
    >>> colours.add("red", "#f00")
    >>> colours["rod"]
    Traceback (most recent call last):
    homefold.errors.ConfigError: there is no colour 'rod'; choose one of red. Did you mean red?
    """

    _all: ClassVar[list[Registry[Any]]] = []

    def __init__(
        self,
        kind: str,
        *places: str,
        order: Callable[[T], Any] | None = None,
        also: str = "",
        error: type[Exception] = ConfigError,
    ) -> None:
        self.kind = kind
        self._places, self._order, self._also, self._error = places, order, also, error
        self._things: dict[str, T] = {}
        self._origins: dict[str, Origin | None] = {}
        self._own: set[str] = set()
        self._is_complete = not places
        self._all.append(self)

    def add(self, name: str, thing: T, by: Any = None) -> None:
        """Register `thing` as `name`, which must be free, but for the same code of the same file again.

        `by` is the class or function that makes it, where that is not the thing itself.
        """
        maker = thing if by is None else by
        origin = remember_code(maker)
        if name in self._things and (origin is None or origin != self._origins.get(name)):
            raise self._error(f"there already is a {self.kind} {shown(name)}; choose another name.")
        self._things[name], self._origins[name] = thing, origin
        if is_own(maker):
            self._own.add(name)

    def named(self, name: str) -> Callable[[R], R]:
        """Register the decorated class or function as `name`."""

        def keep(thing: R) -> R:
            self.add(name, thing)  # type: ignore[arg-type]  # a class stands for itself: R is T or type[T]
            return thing

        return keep

    def remove(self, name: str) -> None:
        """Forget the thing called `name`."""
        del self._things[name]

    def __getitem__(self, name: str) -> T:
        """The thing called `name`; the error names those that there are."""
        if name in self:
            return self._things[name]
        close = difflib.get_close_matches(name, self, n=1) if isinstance(name, str) else []
        hint = f" Did you mean {close[0]}?" if close else ""
        choices = ", ".join([*self, *filter(None, [self._also])])
        raise self._error(f"there is no {self.kind} {shown(name)}; choose one of {choices}.{hint}")

    def __contains__(self, name: object) -> bool:
        return isinstance(name, str) and name in self._found()

    def __iter__(self) -> Iterator[str]:
        """All names, in order."""
        things, order = self._found(), self._order
        return iter(sorted(things) if order is None else sorted(things, key=lambda name: order(things[name])))

    def __len__(self) -> int:
        return len(self._found())

    def values(self) -> tuple[T, ...]:
        """All things, in order."""
        return tuple(self._things[name] for name in self)

    def _found(self) -> dict[str, T]:
        if not self._is_complete:
            for place in self._places:
                package = import_module(place)
                for module in iter_modules(getattr(package, "__path__", ())):
                    import_module(f"{place}.{module.name}")
            self._is_complete = True
        return self._things

    @classmethod
    @contextmanager
    def unless_it_fails(cls) -> Iterator[None]:
        """What others than this package register inside, in any registry, stays, unless an error comes out."""
        before = {registry: dict(registry._things) for registry in cls._all}
        try:
            yield
        except BaseException:
            cls.restore(before)
            raise

    @classmethod
    def restore(cls, before: dict[Registry[Any], dict[str, Any]]) -> None:
        """Each registry as it held `before`, and what this package itself registered since: that happens once."""
        for registry in cls._all:
            own = {name: thing for name, thing in registry._things.items() if name in registry._own}
            registry._things = own | before.get(registry, {})
