"""Reports and tables as text: HTML, Markdown and LaTeX from templates, CSV."""

from __future__ import annotations

import base64
import csv
import io
import re
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape

from homefold.report.runs import slug
from homefold.report.tables.table import Cell, Row, Table

if TYPE_CHECKING:
    from homefold.report.check_page import CheckPage
    from homefold.report.document import Report

__all__ = [
    "check_html",
    "latex_escape",
    "report_html",
    "report_markdown",
    "to_csv",
    "to_html",
    "to_latex",
    "to_markdown",
]

CSV_COLUMNS = ("table", "row", "column", "row_from", "control", *Cell().as_dict())
ABSENT = "NA"

_SPELLINGS = {
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    **{sign: f"\\{sign}" for sign in "&%$#{}_"},
    "±": r"$\pm$",
    "−": "$-$",
    "→": r"$\rightarrow$",
    "β": r"$\beta$",
    "ε": r"$\epsilon$",
    "†": r"\dag{}",
    "·": r"$\cdot$",
    "×": r"$\times$",
    "Δ": r"$\Delta$",
    "–": "--",
    "’": "'",
}
_SYMBOLS = {"G_φ": r"$G_\phi$", "f_θ": r"$f_\theta$", "n*": "$n^*$"}
_LATEX = {**_SYMBOLS, **_SPELLINGS}
_LATEX_SIGNS = re.compile("|".join(map(re.escape, _LATEX)))
_NOTE_ROWS = {"gaps": "not there", "interval": "95 % CI", "control": "Δ vs {control}", "paper": "paper"}


def _markdown_text(text: str) -> str:
    """Text in which no sign is taken for Markdown."""
    return re.sub(r"([\\|*_`<\[])", r"\\\1", text).replace("\n", " ")


def latex_escape(text: str) -> str:
    r"""Text as LaTeX prints it.

    >>> latex_escape("50 % of a_b")
    '50 \\% of a\\_b'
    """
    return _LATEX_SIGNS.sub(lambda sign: _LATEX[sign[0]], text)


_TEMPLATES = Environment(
    loader=PackageLoader("homefold.report.render"),
    autoescape=select_autoescape(["html"]),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_TEMPLATES.filters |= {
    "anchor": lambda title: slug("figures", title),
    "base64": lambda data: base64.b64encode(data).decode("ascii"),
    "md": _markdown_text,
}
# LaTeX has braces of its own.
_LATEX_TEMPLATES = _TEMPLATES.overlay(
    variable_start_string="<<",
    variable_end_string=">>",
    block_start_string="<%",
    block_end_string="%>",
    finalize=lambda value: latex_escape(str(value)),
)


def report_html(report: Report) -> str:
    """One file that needs nothing beside it: no network, no other file, no script."""
    return _TEMPLATES.get_template("report.html").render(report=report)


def check_html(page: CheckPage) -> str:
    """What was found about new images, likewise as one file."""
    return _TEMPLATES.get_template("check.html").render(page=page)


def report_markdown(report: Report) -> str:
    """One file that points to the figures beside it, in the order of the HTML file."""
    return _TEMPLATES.get_template("report.md").render(report=report).rstrip() + "\n"


def to_html(table: Table) -> str:
    """A table with a caption, in a box of its own that scrolls sideways where the screen is narrow."""
    return _TEMPLATES.get_template("table.html").render(table=table)


def to_markdown(table: Table) -> str:
    """A pipe table under a heading, with its caption below; notes stand under their figure."""
    return _TEMPLATES.get_template("table.md").render(table=table)


def to_latex(table: Table) -> str:
    """A floating table that needs booktabs alone; notes stand in small rows below their figures."""
    return _LATEX_TEMPLATES.get_template("table.tex").render(table=table, notes_of=_notes_of)


def _notes_of(row: Row) -> list[tuple[str, list[str]]]:
    """The small rows below a row: what each is called, and a note or nothing for each cell."""
    found = {kind: [dict(cell.notes).get(kind, "") for cell in row.cells] for kind in _NOTE_ROWS}
    return [(_NOTE_ROWS[kind].format(control=row.control), notes) for kind, notes in found.items() if any(notes)]


def to_csv(table: Table) -> str:
    """One line a cell, so that every figure has its interval, its test and the paper's beside it.

    What does not exist is `NA`, which readers of data take for missing.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for row in table.rows:
        origin = "paper" if row.published else "runs"
        for column, cell in zip(table.columns, row.cells, strict=True):
            values = [_csv_value(value) for value in cell.as_dict().values()]
            writer.writerow([table.name, row.label, column, origin, row.control or ABSENT, *values])
    return stream.getvalue()


def _csv_value(value: object) -> str:
    if value is None:
        return ABSENT
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.6g}" if isinstance(value, float) else str(value)
