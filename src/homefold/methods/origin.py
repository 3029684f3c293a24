"""Code that is not this package's: importing it from a file, and telling when it changed since a training."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
import traceback
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from homefold.errors import ConfigError

if TYPE_CHECKING:
    from homefold.methods.base import Method

__all__ = ["code_key", "load_plugin"]

_PACKAGE = __name__.partition(".")[0]


def load_plugin(path: Path | str) -> ModuleType:
    """Import a Python file that registers methods or datasets; once in a process, however often it is asked for.

    Args:
        path: of the file; the folder it lies in is searched last for what it imports.
    """
    place = Path(path).expanduser().resolve()
    name = f"{_PACKAGE}_plugin_{hashlib.sha256(str(place).encode()).hexdigest()[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    if not place.is_file() or place.suffix != ".py":
        raise ConfigError(f"--plugin takes a Python file that registers methods, and {path} is none.")
    spec = importlib.util.spec_from_file_location(name, place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look for their module there
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == str(place)]
        where = f" in line {lines[-1]}" if lines else ""
        raise ConfigError(f"the plugin {path} failed{where}: {type(error).__name__}: {error}") from error
    return module


def code_key(method: Method) -> str:
    """Stands for the code of a method that is not this package's, and of what it wraps; empty for the package's own.

    It changes with the file in which the method's class stands, but for comments, docstrings, layout and what runs only
    when that file is the program itself. What the file imports does not count.
    """
    parts = [_file_key(cls) for cls in type(method).__mro__]
    if is_dataclass(method):
        inside = (getattr(method, item.name) for item in fields(method))
        parts += [code_key(value) for value in inside if hasattr(value, "planned_stages")]
    parts = list(dict.fromkeys(filter(None, parts)))
    return "-".join(parts)


def _file_key(cls: type) -> str:
    if cls.__module__.partition(".")[0] in (_PACKAGE, "builtins", "abc", "typing"):
        return ""
    file = getattr(sys.modules.get(cls.__module__), "__file__", None)
    if not file:
        return ""
    try:
        tree = ast.parse(Path(file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ""
    return hashlib.sha256(ast.dump(_Essence().visit(tree)).encode()).hexdigest()[:12]


class _Essence(ast.NodeTransformer):
    """What decides how a module works when it is imported: no docstrings, nothing for the program alone."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        super().generic_visit(node)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [item for item in node.body if not _is_text(item)] or [ast.Pass()]
        return node

    def visit_If(self, node: ast.If) -> ast.AST | None:
        for_the_program = ast.unparse(node.test) in ("__name__ == '__main__'", "'__main__' == __name__")
        return None if for_the_program else self.generic_visit(node)


def _is_text(item: ast.AST) -> bool:
    return isinstance(item, ast.Expr) and isinstance(item.value, ast.Constant) and isinstance(item.value.value, str)
