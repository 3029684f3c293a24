"""Code that is not this package's: importing it from a file, and telling when it changed since a training."""

from __future__ import annotations

import ast
import hashlib
import sys
import traceback
import uuid
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from homefold.errors import ConfigError

if TYPE_CHECKING:
    from homefold.methods.base import Method

__all__ = ["Origin", "code_key", "load_plugin", "plugin_sources", "remember_code"]

_PACKAGE = __name__.partition(".")[0]
# What a method may derive from without that being its own code.
_NOT_COUNTED = {_PACKAGE, "torch", *sys.stdlib_module_names}

Origin = tuple[Path, str]
"""A file, and the name of a class or function in it."""


@dataclass(frozen=True)
class _Plugin:
    module: ModuleType
    source: bytes


_plugins: dict[Path, _Plugin] = {}
# Of the code as it was when a method was registered: files change, what runs does not.
_keys: WeakKeyDictionary[ModuleType | type, str] = WeakKeyDictionary()


def load_plugin(path: Path | str, source: bytes | None = None) -> ModuleType:
    """Import a Python file that registers methods; once in a process, however often it is asked for.

    Args:
        path: of the file; the folder it lies in is searched last for what it imports.
        source: what it held when another process read it; else it is read.
    """
    typed = Path(path).expanduser()
    place = typed.resolve()
    if place in _plugins:
        return _unchanged(place, source)
    if source is None and typed.suffix != ".py":
        raise ConfigError(
            f"--plugin takes Python files, and {path} does not end in .py; write other words of the command before it."
        )
    if source is None and not place.is_file():
        raise ConfigError(f"there is no file {path}, which --plugin names.")
    imported = next((module for module in list(sys.modules.values()) if _file_of(module) == place), None)
    if imported is not None:
        return imported
    source = place.read_bytes() if source is None else source
    module = ModuleType(f"{_PACKAGE}_plugin_{_digest(str(place).encode())}")
    module.__file__ = str(place)
    _plugins[place], sys.modules[module.__name__] = _Plugin(module, source), module
    _keys[module] = _key_of_source(source)
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
    from homefold.methods.registry import unless_it_fails  # which imports this module

    try:
        with redirect_stdout(sys.stderr), unless_it_fails():
            exec(compile(source, str(place), "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del _plugins[place], sys.modules[module.__name__]
        if isinstance(error, Exception | SystemExit):
            raise ConfigError(_what_failed(path, place, error)) from error
        raise
    return module


def _unchanged(place: Path, source: bytes | None) -> ModuleType:
    plugin = _plugins[place]
    try:
        now = place.read_bytes() if source is None else source
    except OSError:
        now = plugin.source
    if now != plugin.source and _key_of_source(now) != _keys[plugin.module]:
        raise ConfigError(f"the plugin {place} changed since this process loaded it; start Python again.")
    return plugin.module


def _what_failed(path: Path | str, place: Path, error: BaseException) -> str:
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
    where = f" in line {lines[-1]}" if lines else ""
    if isinstance(error, SystemExit):
        return (
            f"the plugin {path} ended the program{where} ({error}); put what only a program does under "
            f'if __name__ == "__main__".'
        )
    hint = "; import what lies beside it by its plain name" if "relative import" in str(error) else ""
    return f"the plugin {path} failed{where}: {type(error).__name__}: {error}{hint}"


def plugin_sources() -> dict[Path, bytes]:
    """What each plugin of this process held when it was loaded, for processes that are to run the same."""
    return {place: plugin.source for place, plugin in _plugins.items()}


def code_key(method: Method) -> str:
    """Stands for the code of a method that is not this package's, and of what it wraps; empty for the package's own.

    It changes with the files in which the method's class and its base classes stand, but for comments, docstrings,
    layout and what runs only when such a file is the program itself. What the files import does not count.
    """
    parts = [_class_key(cls) for cls in type(method).__mro__]
    if is_dataclass(method):
        inside = (getattr(method, item.name) for item in fields(method))
        parts += [code_key(value) for value in inside if hasattr(value, "planned_stages")]
    return "-".join(dict.fromkeys(filter(None, parts)))


def remember_code(thing: Any) -> Origin | None:
    """Where a class or function comes from that is just being registered; its code is taken as its file has it now.

    None for the package's own and for what has no file. A file that is imported twice, under two names, is one origin.
    """
    module = sys.modules.get(thing.__module__)
    place = _file_of(module)
    if module is None or place is None or not _is_counted(thing):
        return None
    if place not in _plugins or _plugins[place].module is not module:
        _keys[module] = _key_of_file(place)
    return place, thing.__qualname__


def _is_counted(thing: Any) -> bool:
    return thing.__module__.partition(".")[0] not in _NOT_COUNTED


def _class_key(cls: type) -> str:
    if not _is_counted(cls):
        return ""
    module = sys.modules.get(cls.__module__)
    if module is not None and module in _keys:
        return _keys[module]
    place = _file_of(module)
    if module is not None and place is not None:
        return _keys.setdefault(module, _key_of_file(place))
    # A class of a notebook has no file: it is as new as the process, and what it trains is not found again.
    return _keys.setdefault(cls, _digest(uuid.uuid4().bytes))


def _file_of(module: object) -> Path | None:
    # Not by getattr: modules that import lazily would be asked for more than they have.
    file = vars(module).get("__file__") if isinstance(module, ModuleType) else None
    place = Path(file).resolve() if isinstance(file, str) else None
    return place if place is not None and place.is_file() else None


def _key_of_file(place: Path) -> str:
    return _key_of_source(place.read_bytes())


def _key_of_source(source: bytes) -> str:
    try:
        return _digest(repr(list(_essence(ast.parse(source)))).encode())
    except (SyntaxError, ValueError):
        return _digest(source)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def _essence(node: Any) -> Iterator[object]:
    """What decides how a module works when it is imported, as plain values, alike in every version of Python."""
    if isinstance(node, list):
        for item in node:
            yield from _essence(item)
        yield "end"
    elif isinstance(node, ast.If) and _asks_for_the_program(node):
        for item in node.orelse:
            yield from _essence(item)
    elif isinstance(node, ast.AST):
        if _is_text(node):
            return
        yield type(node).__name__
        for name, value in ast.iter_fields(node):
            if name not in ("ctx", "kind", "type_comment") and value is not None and value != []:
                yield name
                yield from _essence(value)
    else:
        yield repr(node)


def _asks_for_the_program(node: ast.If) -> bool:
    return ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")


def _is_text(item: ast.AST) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)
