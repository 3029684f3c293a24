"""Results on standard output: tables for people, JSON for programs. All else goes to standard error."""

from __future__ import annotations

import math
import shlex
import sys
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from homefold.runtime.json_lines import json_line
from homefold.runtime.text import as_text

__all__ = [
    "fact_table",
    "json_line",
    "note",
    "print_json",
    "result_console",
    "result_table",
    "show_bytes",
    "show_share",
    "typed",
]

_WIDTH_OF_A_PIPE = 200


def print_json(value: Any) -> None:
    """One object on standard output."""
    print(json_line(value))


def typed(*words: object) -> str:
    """A command line as it was typed; bytes of it that are no text are shown escaped, as records keep text alone.

    >>> typed("homefold", "report", "my runs")
    "homefold report 'my runs'"
    """
    return as_text(shlex.join(map(str, words)))


def note(text: str) -> None:
    """A line for the person watching; `sys.stderr` is looked up now, because a progress bar may stand before it."""
    print(text, file=sys.stderr)


def result_console() -> Console:
    """A console on standard output that takes no `[` in a name for markup, and cuts nothing off in a pipe."""
    console = Console(markup=False, emoji=False, highlight=False)
    if not console.is_terminal:
        console.width = _WIDTH_OF_A_PIPE
    return console


def result_table(*columns: str, title: str | None = None, numbers: int = 0) -> Table:
    """An empty table with these columns, of which the last `numbers` are aligned to the right."""
    table = Table(box=box.SIMPLE_HEAD, title=title, title_justify="left", pad_edge=False)
    for position, column in enumerate(columns):
        right = position >= len(columns) - numbers
        table.add_column(column, justify="right" if right else "left", overflow="fold")
    return table


def fact_table(facts: dict[str, str]) -> Table:
    """Two columns: what, and its value."""
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in facts.items():
        table.add_row(name, value)
    return table


def show_share(share: float | None) -> str:
    """A share of one as a percentage.

    >>> show_share(0.9154), show_share(None)
    ('91.5 %', '–')
    """
    return "–" if share is None or math.isnan(share) else f"{100 * share:.1f} %"


def show_bytes(size: int) -> str:
    """A size in the unit that suits it.

    >>> show_bytes(532), show_bytes(45_300_000)
    ('532 B', '45.3 MB')
    """
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"
