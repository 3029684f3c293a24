"""A set of named commands: the page that lists them, and how the one that was typed is found and run."""

from __future__ import annotations

import difflib
import importlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from homefold.cli.ending import UsageError

__all__ = ["Command", "run_command"]


@dataclass(frozen=True)
class Command:
    """One command, imported only when it runs, so that help comes at once."""

    summary: str
    module: str
    function: str = "run"

    def run(self, arguments: Sequence[str]) -> int:
        """Import it and run it."""
        code: int = getattr(importlib.import_module(self.module), self.function)(arguments)
        return code


def run_command(
    program: str, commands: Mapping[str, Command], arguments: Sequence[str], *, about: str, end: str
) -> int:
    """Run the command that `arguments` begin with; show the list of commands when asked to or when there is none."""
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in commands.items())
    page = f"usage: {program} COMMAND …\n\n{about}\n\ncommands:\n{listed}\n\n{end}"
    if not arguments:
        print(page, end="", file=sys.stderr)
        return 2
    name, *rest = arguments
    if name in ("-h", "--help", "help"):
        print(page, end="")
        return 0
    if name not in commands:
        close = difflib.get_close_matches(name, commands, n=1)
        hint = f" Did you mean {program} {close[0]}?" if close else ""
        what = "option" if name.startswith("-") else "command"
        raise UsageError(f"{program} has no {what} {name!r}; its commands are {', '.join(commands)}.{hint}")
    return commands[name].run(rest)
