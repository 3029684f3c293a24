"""The parts of pages that are written from the code: all settings, and the help of all commands.

A page asks for one by a comment, such as `<!-- written: settings -->`. An entry of a table of contents that ends
in a question mark is left out where there is no such page.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

from homefold.cli import main
from homefold.cli.app import COMMANDS
from homefold.cli.settings import Setting, list_settings, written
from homefold.config import list_presets

TITLES = {
    "": "General",
    "preprocessing": "preprocessing: how images become the network's input",
    "features": "features: stage 1, the network f",
    "features.augmentation": "features.augmentation: how training images are varied",
    "manifold": "manifold: stage 2, the manifold G",
    "classifier": "classifier: stage 3, the classifier C",
    "style": "style: the styles of unseen images",
    "look": "look: how an unseen image is seen",
    "search": "search: the search on the manifold",
}


def all_settings() -> str:
    """Every setting under the part it belongs to, as Markdown."""
    parts: dict[str, list[Setting]] = {}
    for setting in list_settings():
        parts.setdefault(setting.name.rpartition(".")[0], []).append(setting)
    sections = []
    for part, settings in parts.items():
        entries = "\n\n".join(_setting(setting) for setting in settings)
        sections.append(f"## {TITLES.get(part, part)}\n\n{entries}")
    return "\n\n".join(sections)


def _setting(setting: Setting) -> str:
    others: dict[str, list[str]] = {}
    for preset, value in setting.presets.items():
        others.setdefault(written(value), []).append(preset)
    values = setting.values[0].upper() + setting.values[1:]
    facts = [f"{values}.", f"Default: `{written(setting.default)}`."]
    if others:
        sets = "; ".join(f"`{value}` in {', '.join(presets)}" for value, presets in others.items())
        facts.append(f"Other presets: {sets}.")
    return f"`{setting.name}`\n: {_plain(setting.about)}\n\n  {_plain(' '.join(facts), keep='`')}"


def _plain(text: str, keep: str = "") -> str:
    """Text whose marks are not taken for Markdown."""
    for mark in "\\*_<>[]`":
        if mark not in keep and "`" not in text:
            text = text.replace(mark, f"\\{mark}")
    return text


def presets() -> str:
    """What each preset changes of the default, as Markdown."""
    settings = list_settings()
    lines = []
    for preset in list_presets():
        changes = [f"{each.name} = {written(each.presets[preset])}" for each in settings if preset in each.presets]
        if changes:
            lines.append(f"`{preset}`\n: ```text\n  " + "\n  ".join(changes) + "\n  ```")
    return "\n\n".join(lines)


def all_commands() -> str:
    """The help of every command, as Markdown."""
    sections = []
    for name, command in COMMANDS.items():
        sections.append(_command(f"homefold {name}", [name], level=2))
        inner = getattr(importlib.import_module(command.module), "COMMANDS", {})
        sections.extend(_command(f"homefold {name} {each}", [name, each], level=3) for each in inner)
    return "\n\n".join(sections)


def _command(title: str, words: list[str], level: int) -> str:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), patch.dict(os.environ, {"COLUMNS": "88"}):
        main([*words, "--help"])
    return f"{'#' * level} {title}\n\n{_help(printed.getvalue())}"


def _help(text: str) -> str:
    """A page of help with its flags as a list of definitions, which a narrow screen can show."""
    before, found, flags = text.partition("\narguments:\n")
    if not found:
        return f"```text\n{text.rstrip()}\n```"
    usage, *about = before.strip().split("\n\n")
    paragraphs = [_paragraph(" ".join(part.split())) for part in about]
    entries: list[list[str]] = []
    for line in flags.rstrip().splitlines():
        if re.match(r"  \S", line):
            entries.append(re.split(r"\s{2,}", line.strip(), maxsplit=1))
        else:
            entries[-1].append(line.strip())
    shown = [f"`{flag}`\n: {_plain(' '.join(words))}" for flag, *words in entries]
    return "\n\n".join([f"```console\n$ {usage.removeprefix('usage: ')}\n```", *paragraphs, *shown])


def _paragraph(text: str) -> str:
    """A paragraph of help; an example of a command as such."""
    _, example, command = text.partition("Example: ")
    return f"```console\n$ {command}\n```" if example and text.startswith("Example: ") else _plain(text)


PARTS: dict[str, Callable[[], str]] = {"settings": all_settings, "presets": presets, "commands": all_commands}


def fill(text: str) -> str:
    """A page with its parts in the place of the comments that ask for them."""
    for name, write in PARTS.items():
        mark = f"<!-- written: {name} -->"
        if mark in text:
            text = text.replace(mark, write())
    return text


def without_absent(text: str, folder: Path) -> str:
    """The text without entries such as `serv*?` of which `folder` has no page; others lose their question mark."""

    def entry(found: re.Match[str]) -> str:
        return f"{found[1]}\n" if any(folder.glob(f"{found[1]}.md")) else ""

    return re.sub(r"^([\w*/-]+)\?\n", entry, text, flags=re.MULTILINE)


def _fill_source(app: Any, page: str, source: list[str]) -> None:
    source[0] = without_absent(fill(source[0]), Path(app.env.doc2path(page)).parent)


def _written_pages(app: Any, env: Any, added: set[str], changed: set[str], removed: set[str]) -> Iterator[str]:
    """Pages with such parts are made anew each time: the code may have changed."""
    for page in env.found_docs:
        if "<!-- written: " in Path(env.doc2path(page)).read_text("utf-8"):
            yield page


def setup(app: Any) -> dict[str, Any]:
    """Join Sphinx."""
    app.connect("source-read", _fill_source)
    app.connect("env-get-outdated", lambda *given: list(_written_pages(*given)))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
