"""Modules of the page as one classic script: a page that is opened as a file may load no modules.

Every module becomes a function that returns what it exports, after those that it imports. What is understood is what
the page needs: `import { a, b as c } from "./module.js";` and `export` before a function, a class or a constant.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

__all__ = ["bundle"]

_IMPORT = re.compile(r'^import \{([^}]*)\} from "\./([^"]+)\.js";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async function\*?|function\*?|class|const) (\w+))", re.MULTILINE)
_LEFT = re.compile(r"^\s*(?:import|export)\b.*$|\bimport\s*[(.].*$|^await\b.*$", re.MULTILINE)


def bundle(modules: Mapping[str, str], entry: str) -> str:
    """One script that does what the module `entry` does.

    Args:
        modules: their texts by name, without `.js`.
        entry: the module that a page would load.
    """
    parts: dict[str, str] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in parts:
            return
        if name in above:
            raise ValueError(f"the modules import each other in a circle: {' '.join((*above, name))}.")
        text = modules[name]
        for imported in _IMPORT.findall(text):
            add(imported[1], (*above, name))
        parts[name] = _as_function(name, text)

    add(entry, ())
    return '"use strict";\n(() => {\n' + "\n".join(parts.values()) + "})();\n"


def _as_function(name: str, text: str) -> str:
    exported = _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub(_constants, text))
    if left := _LEFT.search(body):
        raise ValueError(f"{name}.js has a line that no bundle understands: {left[0].strip()}")
    return f"const {_variable(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();\n"


def _constants(found: re.Match[str]) -> str:
    names = re.sub(r"\s+as\s+", ": ", " ".join(found[1].split()))
    return f"const {{ {names} }} = {_variable(found[2])};"


def _variable(name: str) -> str:
    return f"module_{name}"
