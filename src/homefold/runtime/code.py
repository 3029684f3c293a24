"""Telling whether code that is not this package's changed: a key for the file that a class or function stands in."""

from __future__ import annotations

import ast
import hashlib
import sys
import uuid
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary, WeakSet

__all__ = [
    "Origin",
    "digest",
    "file_of",
    "is_own",
    "joined_keys",
    "keep_source",
    "key_of_source",
    "key_of_thing",
    "remember_code",
]

_PACKAGE = __name__.partition(".")[0]
# What something may derive from without that being its own code.
_NOT_COUNTED = {_PACKAGE, "torch", *sys.stdlib_module_names}

Origin = tuple[Path, str]
"""A file, and the name of a class or function in it."""

# Of the code as it was when it was registered: files change, what runs does not.
_keys: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
_kept: WeakSet[ModuleType] = WeakSet()


def keep_source(module: ModuleType, source: bytes) -> str:
    """Say what a module was made of, whatever its file holds by now; its key."""
    _kept.add(module)
    _keys[module] = key_of_source(source)
    return _keys[module]


def remember_code(thing: Any) -> Origin | None:
    """Where a class or function comes from that is just being registered; its code is taken as its file has it now.

    None for the package's own and for what has no file. A file that is imported twice, under two names, is one origin.
    """
    if is_own(thing):
        return None
    module = sys.modules.get(getattr(thing, "__module__", ""))
    place = file_of(module)
    if module is None or place is None:
        return None
    if module not in _kept:
        _keys[module] = key_of_source(place.read_bytes())
    return place, thing.__qualname__


def key_of_thing(thing: Any) -> str:
    """Stands for the code of a class, with its base classes, or of a function; empty where it is this package's own.

    It changes with the files in which these stand, but for comments, docstrings, layout and what runs only when such a
    file is the program itself. What the files import does not count.
    """
    return joined_keys(map(_own_key, thing.__mro__ if isinstance(thing, type) else (thing,)))


def joined_keys(keys: Iterable[str]) -> str:
    """Several keys as one, each once."""
    return "-".join(dict.fromkeys(part for key in keys for part in key.split("-") if part))


def is_own(thing: Any) -> bool:
    """Whether a class or function is this package's, or of what counts as little as this package."""
    return getattr(thing, "__module__", "").partition(".")[0] in _NOT_COUNTED


def _own_key(thing: Any) -> str:
    if is_own(thing):
        return ""
    module = sys.modules.get(thing.__module__)
    if module is not None and module in _keys:
        return _keys[module]
    place = file_of(module)
    if module is not None and place is not None:
        return _keys.setdefault(module, key_of_source(place.read_bytes()))
    # A class of a notebook has no file: it is as new as the process, and what it trains is not found again.
    return _keys.setdefault(thing, digest(uuid.uuid4().bytes))


def file_of(module: object) -> Path | None:
    """The file that a module was imported from."""
    # Not by getattr: modules that import lazily would be asked for more than they have.
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    place = Path(file).resolve() if isinstance(file, str) else None
    return place if place is not None and place.is_file() else None


def key_of_source(source: bytes) -> str:
    """The key of a file's content."""
    try:
        return digest(repr(list(_essence(ast.parse(source)))).encode())
    except (SyntaxError, ValueError):
        return digest(source)


def digest(content: bytes) -> str:
    """A short name for bytes."""
    return hashlib.sha256(content).hexdigest()[:12]


_IS_THE_PROGRAM = ("__name__ == '__main__'", "'__main__' == __name__")


def _essence(node: Any) -> Iterator[object]:
    """What decides how a module works when it is imported, as plain values, alike in every version of Python."""
    if isinstance(node, list):
        for item in node:
            yield from _essence(item)
        yield "end"
    elif isinstance(node, ast.If) and ast.unparse(node.test) in _IS_THE_PROGRAM:
        for item in node.orelse:
            yield from _essence(item)
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return  # a docstring
    elif isinstance(node, ast.AST):
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name not in ("ctx", "kind", "type_comment") and value is not None and value != []:
                yield name
                yield from _essence(value)
    else:
        yield repr(node)
