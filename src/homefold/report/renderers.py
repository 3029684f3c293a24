"""One table as Markdown, CSV, LaTeX or HTML."""

from __future__ import annotations

import csv
import html
import io

from homefold.report.table import Cell, Row, Table

__all__ = ["latex_escape", "markdown_text", "to_csv", "to_html", "to_latex", "to_markdown"]


def to_markdown(table: Table) -> str:
    """A pipe table under a heading, with its caption below; notes stand under their figure."""
    head = [table.stub, *table.columns]
    lines = [
        f"### {markdown_text(table.title)}",
        "",
        "| " + " | ".join(map(markdown_text, head)) + " |",
        "|" + "|".join(["---", *("---:" for _ in table.columns)]) + "|",
    ]
    lines += ["| " + " | ".join([_markdown_label(row), *map(_markdown_cell, row.cells)]) + " |" for row in table.rows]
    return "\n".join([*lines, "", markdown_text(table.caption), ""])


def markdown_text(text: str) -> str:
    """Text in which no sign is taken for Markdown."""
    for sign in "\\|*_`<[":
        text = text.replace(sign, "\\" + sign)
    return text.replace("\n", " ")


def _markdown_label(row: Row) -> str:
    label = f"*{markdown_text(row.label)}*" if row.published else markdown_text(row.label)
    return f"{label}<br><sub>Δ vs {markdown_text(row.control)}</sub>" if row.control else label


def _markdown_cell(cell: Cell) -> str:
    main = f"**{markdown_text(cell.main)}**" if cell.best else markdown_text(cell.main)
    return "<br>".join([main, *(f"<sub>{markdown_text(text)}</sub>" for _, text in cell.notes)])


CSV_COLUMNS = ("table", "row", "column", "row_from", "control", *Cell().as_dict())
ABSENT = "NA"


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


_LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "_": r"\_",
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


def latex_escape(text: str) -> str:
    r"""Text as LaTeX prints it.

    >>> latex_escape("50 % of a_b")
    '50 \\% of a\\_b'
    """
    for symbol, latex in _SYMBOLS.items():
        if symbol in text:
            return latex.join(latex_escape(part) for part in text.split(symbol))
    return "".join(_LATEX.get(letter, letter) for letter in text)


_NOTE_ROWS = {"gaps": "not there", "interval": "95 % CI", "control": "Δ vs {control}", "paper": "paper"}


def to_latex(table: Table) -> str:
    """A floating table that needs booktabs alone; notes stand in small rows below their figures."""
    head = " & ".join(map(latex_escape, [table.stub, *table.columns]))
    lines = [
        r"\begin{table}",
        r"\centering",
        rf"\begin{{tabular}}{{l{'r' * len(table.columns)}}}",
        r"\toprule",
        rf"{head} \\",
        r"\midrule",
        *(line for row in table.rows for line in _latex_rows(row)),
        r"\bottomrule",
        r"\end{tabular}",
        rf"\caption{{{latex_escape(table.title)}. {latex_escape(table.caption)}}}",
        rf"\label{{tab:{table.name}}}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _latex_rows(row: Row) -> list[str]:
    label = latex_escape(row.label)
    figures = [_latex_main(cell) for cell in row.cells]
    lines = [" & ".join([rf"\textit{{{label}}}" if row.published else label, *figures]) + r" \\"]
    for kind, name in _NOTE_ROWS.items():
        notes = [dict(cell.notes).get(kind, "") for cell in row.cells]
        if any(notes):
            small = [rf"{{\scriptsize {latex_escape(note or '–')}}}" for note in notes]
            lines.append(
                " & ".join([rf"\quad{{\scriptsize {latex_escape(name.format(control=row.control))}}}", *small]) + r" \\"
            )
    return lines


def _latex_main(cell: Cell) -> str:
    text = latex_escape(cell.main)
    return rf"\textbf{{{text}}}" if cell.best else text


def to_html(table: Table) -> str:
    """A table with a caption, in a box of its own that scrolls sideways where the screen is narrow."""
    head = "".join(f'<th scope="col">{html.escape(column)}</th>' for column in table.columns)
    body = "\n".join(_html_row(row) for row in table.rows)
    mark = '<p class="oracle">† Models were selected on the target itself (oracle).</p>' if table.oracle else ""
    return (
        f'<section class="table" id="table-{html.escape(table.name)}">\n<h3>{html.escape(table.title)}</h3>\n{mark}'
        f'<div class="scroll" tabindex="0" role="region" aria-label="{html.escape(table.title)}">\n'
        f'<table>\n<thead><tr><th scope="col">{html.escape(table.stub)}</th>{head}</tr></thead>\n'
        f"<tbody>\n{body}\n</tbody>\n</table>\n</div>\n"
        f'<p class="caption">{html.escape(table.caption)}</p>\n</section>'
    )


def _html_row(row: Row) -> str:
    kind = ' class="published"' if row.published else ""
    cells = "".join(_html_cell(cell) for cell in row.cells)
    control = f"<small>Δ vs {html.escape(row.control)}</small>" if row.control else ""
    return f'<tr{kind}><th scope="row">{html.escape(row.label)}{control}</th>{cells}</tr>'


def _html_cell(cell: Cell) -> str:
    absent = ' class="absent"' if not cell.summary and cell.gaps else ""
    main = html.escape(cell.main)
    main = f"<strong>{main}</strong>" if cell.best else f"<span>{main}</span>"
    notes = "".join(f'<small class="{kind}">{html.escape(text)}</small>' for kind, text in cell.notes)
    return f"<td{absent}>{main}{notes}</td>"
