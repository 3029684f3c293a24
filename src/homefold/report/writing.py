"""A report on disk: each file appears whole or not at all, and files of an earlier report do not linger."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homefold.errors import ConfigError
from homefold.report.document import Report
from homefold.report.render import report_html, report_markdown, to_csv, to_latex
from homefold.store.files import write_atomically, write_json

__all__ = ["FORMATS", "write_report"]

FORMATS = ("md", "csv", "latex", "html")
_LIST = "report.json"
_LONGEST_NAME = 255


def write_report(report: Report, out: Path | str, formats: tuple[str, ...] = FORMATS) -> dict[str, Any]:
    """Write the report and return its paths by kind.

    `report.json` holds all figures and names the files, so that the next report into the same folder removes those
    of this one that it does not write again. Nothing else in the folder is touched: a file that would have to give
    way is refused before anything is written.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ConfigError(f"{out} is a file; give a folder.")
    before = _listed(out)
    files = list(_files(report, formats))
    for name in [name for _, name, _ in files] + [_LIST]:
        if name not in before and (out / name).exists():
            raise ConfigError(f"{out / name} was not written by an earlier report; move it, or choose another folder.")
    # First of all, so that the next report knows what one that was killed half-way wrote.
    write_json(out / _LIST, {"files": sorted({name for _, name, _ in files} | before - {_LIST})})
    written: dict[str, list[str]] = {}
    for kind, name, data in files:
        with write_atomically(out / name) as temporary:
            temporary.write_bytes(data)
        written.setdefault(kind, []).append(name)
    names = [name for kind in written.values() for name in kind]
    write_json(out / _LIST, {**_finite(report.as_dict()), "files": names})
    for name in before - {*names, _LIST}:
        (out / name).unlink(missing_ok=True)
    return {kind: [str(out / name) for name in names] for kind, names in written.items()}


def _files(report: Report, formats: tuple[str, ...]) -> Iterator[tuple[str, str, bytes]]:
    """Kind, name and content of every file."""
    if {"md", "html"} & set(formats):
        for section in report.drawn:
            for figure in section.figures:
                yield "figures", f"figures/{figure.name}.{figure.format}", figure.data
    for table in report.tables:
        if "csv" in formats:
            yield "csv", f"tables/{table.name}.csv", to_csv(table).encode()
        if "latex" in formats:
            yield "latex", f"tables/{table.name}.tex", to_latex(table).encode()
    if "md" in formats:
        yield "markdown", "report.md", report_markdown(report).encode()
    if "html" in formats:
        yield "html", "report.html", report_html(report).encode()


def _listed(out: Path) -> set[str]:
    """What an earlier report wrote here, the list itself included; a list that is not ours counts for nothing."""
    try:
        names = json.loads((out / _LIST).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return set()
    if not isinstance(names, list):
        return set()
    return {_LIST} | {name for name in names if isinstance(name, str) and _is_ours(name)}


def _is_ours(name: str) -> bool:
    path = Path(name)
    if "\0" in name or len(os.fsencode(path.name)) > _LONGEST_NAME:
        return False
    if name in ("report.md", "report.html"):
        return True
    return len(path.parts) == 2 and path.parts[0] in ("tables", "figures") and path.name not in ("..", ".")


def _finite(value: Any) -> Any:
    """JSON has no NaN: null stands for it."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and value != value else value
