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
    """One command, imported only when it runs, so that help comes at once.

    Args:
        summary: what it does, in a line.
        module: where it lies.
        function: takes the words after the command's name and returns an exit code.
    """

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
    """Run the command that `arguments` begin with; show the list of commands when asked to or when there is none.

    Args:
        program: what stands before the command's name.
        commands: by name.
        arguments: the words after the program's name.
        about: first line of the list.
        end: what stands below the list.
    """
    page = _help_page(program, commands, about, end)
    if not arguments:
        print(page, end="", file=sys.stderr)
        return 2
    name, *rest = arguments
    if name in ("-h", "--help", "help"):
        print(page, end="")
        return 0
    if name not in commands:
        raise _unknown(program, commands, name)
    return commands[name].run(rest)


def _help_page(program: str, commands: Mapping[str, Command], about: str, end: str) -> str:
    width = max(map(len, commands))
    listed = "\n".join(f"  {name:<{width}}  {command.summary}" for name, command in commands.items())
    return f"usage: {program} COMMAND …\n\n{about}\n\ncommands:\n{listed}\n\n{end}"


def _unknown(program: str, commands: Mapping[str, Command], name: str) -> UsageError:
    close = difflib.get_close_matches(name, commands, n=1)
    hint = f" Did you mean {program} {close[0]}?" if close else ""
    what = "option" if name.startswith("-") else "command"
    return UsageError(f"{program} has no {what} {name!r}; its commands are {', '.join(commands)}.{hint}")
