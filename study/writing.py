"""What the scripts of the study share: a table that can be pasted into a page, and a file that names its origin."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from homefold.runtime.provenance import hardware, versions
from homefold.store.files import write_json

_FIGURE = re.compile(r"[−+-]?\d|[ –]$|collapsed$")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table: the first column to the left, and those of figures to the right.

    >>> print(markdown(["recipe", "gain"], [["longer", "+1.0"], ["shorter", ""]]))
    |recipe|gain|
    |---|---:|
    |longer|+1.0|
    |shorter| |
    """
    lines = [[cell or " " for cell in line] for line in (head, *rows)]
    sides = ["---:" if all(map(_FIGURE.match, column)) else "---" for column in zip(*lines[1:], strict=True)]
    shown = ["|" + "|".join(line) + "|" for line in (lines[0], ["---", *sides[1:]], *lines[1:])]
    return "\n".join(shown)


def print_table(title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """One line a row, one column for each key of the first."""
    head = [name.replace("_", " ") for name in rows[0]]
    print(f"\n{title}\n\n{markdown(head, [[_shown(value) for value in row.values()] for row in rows])}")


def _shown(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def write_result(path: Path | None, rows: Sequence[Mapping[str, Any]], **more: Any) -> None:
    """Everything as JSON, with what made it, where a path is given."""
    if path is None:
        return
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    origin = {
        "hardware": hardware(torch.device("cpu")),
        "versions": versions(),
        "commit": commit.stdout.strip() or None,
        "command": "python " + shlex.join(sys.argv),
    }
    write_json(path, {**origin, **more, "rows": [dict(row) for row in rows]})
