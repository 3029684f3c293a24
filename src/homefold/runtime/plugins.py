"""Plugins: Python files that register things of the user's own, run when they are named and never by themselves."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterable
from contextlib import redirect_stdout
from pathlib import Path
from types import ModuleType

from homefold.errors import ConfigError
from homefold.runtime.code import digest, file_of, keep_source, key_of_source
from homefold.runtime.registry import Registry

__all__ = ["load_plugin", "load_plugins", "plugin_sources"]


# Each with what its file held when it was loaded.
_plugins: dict[Path, tuple[ModuleType, bytes]] = {}


def load_plugins(paths: Iterable[Path | str]) -> None:
    """Import several."""
    for path in paths:
        load_plugin(path)


def load_plugin(path: Path | str, source: bytes | None = None) -> ModuleType:
    """Import a Python file that registers something; once in a process, however often it is asked for.

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
            f"a plugin is a Python file, and {path} does not end in .py; other words of a command stand before plugins."
        )
    if source is None and not place.is_file():
        raise ConfigError(f"there is no file {path}, which a plugin is to be loaded from.")
    imported = next((module for module in list(sys.modules.values()) if file_of(module) == place), None)
    if imported is not None:
        return imported
    source = place.read_bytes() if source is None else source
    module = ModuleType(f"homefold_plugin_{digest(str(place).encode())}")
    module.__file__ = str(place)
    _plugins[place], sys.modules[module.__name__] = (module, source), module
    keep_source(module, source)
    if str(place.parent) not in sys.path:
        sys.path.append(str(place.parent))
    try:
        with redirect_stdout(sys.stderr), Registry.unless_it_fails():
            exec(compile(source, str(place), "exec", dont_inherit=True), module.__dict__)
    except BaseException as error:
        del _plugins[place], sys.modules[module.__name__]
        if isinstance(error, Exception | SystemExit):
            raise ConfigError(_what_failed(path, place, error)) from error
        raise
    return module


def _unchanged(place: Path, source: bytes | None) -> ModuleType:
    module, before = _plugins[place]
    try:
        now = place.read_bytes() if source is None else source
    except OSError:
        now = before
    if now != before and key_of_source(now) != key_of_source(before):
        raise ConfigError(f"the plugin {place} changed since this process loaded it; start Python again.")
    return module


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
    return {place: source for place, (_, source) in _plugins.items()}
