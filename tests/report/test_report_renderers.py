"""One table in four languages."""

from __future__ import annotations

import csv
import io
from html.parser import HTMLParser

import pytest

from homefold.report.render import latex_escape, to_csv, to_html, to_latex, to_markdown
from homefold.report.statistics import Comparison, Summary
from homefold.report.tables.published import PublishedFigure
from homefold.report.tables.table import Cell, Row, Table

FIGURE = Cell(Summary(83.0, 1.5, 80.0, 86.0, 3), 3, 0, PublishedFigure(84.25, 0.3), Comparison(2.0, 0.0004), best=True)
TABLE = Table(
    "odd-names",
    "A | B & C <i>_x_</i>",
    "100 % of G_φ.",
    "Method",
    ("one_1", "two"),
    (
        Row("<script>alert(1)</script>", (FIGURE, Cell(expected=3, failed=1)), control="w/o G_φ"),
        Row("RSC (paper)", (Cell(published=PublishedFigure(80.85, 1.2)), Cell(text="not printed")), published=True),
    ),
)


def test_markdown_keeps_its_columns_whatever_the_names() -> None:
    lines = [line for line in to_markdown(TABLE).splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert {line.replace("\\|", "").count("|") for line in lines} == {4}
    assert "**83.00 ± 1.50**<br><sub>\\[80.00, 86.00]</sub><br><sub>Δ +2.00, p \\< 0.001</sub>" in lines[2]
    assert "<sub>paper 84.25 (−1.25)</sub>" in lines[2]
    assert "failed (1 of 3), missing (2 of 3)" in lines[2]
    assert lines[2].count("<script>") == lines[2].count("\\<script>") == 1


def test_csv_has_a_line_for_each_cell_and_no_empty_field() -> None:
    rows = list(csv.DictReader(io.StringIO(to_csv(TABLE))))
    assert len(rows) == 4
    assert all(value != "" for row in rows for value in row.values())
    first, second, third, _ = rows
    assert (first["mean"], first["std"], first["ci_low"], first["runs"]) == ("83", "1.5", "80", "3")
    assert (first["p"], first["difference_to_paper"], first["control"]) == ("0.0004", "-1.25", "w/o G_φ")
    assert (second["mean"], second["failed"], second["missing"]) == ("NA", "1", "2")
    assert (third["row_from"], third["paper"], third["mean"]) == ("paper", "80.85", "NA")


def test_latex_is_escaped_and_every_row_has_all_columns() -> None:
    text = to_latex(TABLE)
    body = text.split("\\toprule\n")[1].split("\\bottomrule")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\")]
    assert {line.replace(r"\&", "").count("&") for line in rows} == {2}
    assert r"\textbf{83.00 $\pm$ 1.50}" in text
    assert r"one\_1" in text
    assert r"{\scriptsize $\Delta$ +2.00, p \textless{} 0.001}" in text
    assert (
        r"\caption{A | B \& C \textless{}i\textgreater{}\_x\_\textless{}/i\textgreater{}. 100 \% of $G_\phi$.}" in text
    )
    assert text.count("{") - text.count(r"\{") == text.count("}") - text.count(r"\}")


@pytest.mark.parametrize(
    ("text", "latex"),
    [
        ("a\\b", r"a\textbackslash{}b"),
        ("{x}", r"\{x\}"),
        ("w/o f_θ, n*", r"w/o $f_\theta$, $n^*$"),
        ("−3 ~", r"$-$3 \textasciitilde{}"),
    ],
)
def test_signs_that_latex_would_misread(text: str, latex: str) -> None:
    assert latex_escape(text) == latex


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_html_shows_names_as_they_are_and_runs_none_of_them() -> None:
    parser = _Cells()
    parser.feed(to_html(TABLE))
    assert "script" not in parser.tags
    assert "<script>alert(1)</script>" in parser.words
    assert parser.tags.count("td") == 4
    assert "83.00 ± 1.50" in parser.words
    assert "strong" in parser.tags


def test_a_difference_that_rounds_to_nothing_has_no_sign() -> None:
    cell = Cell(Summary(84.252, None, None, None, 1), 1, 0, PublishedFigure(84.25))
    assert cell.against_paper == "paper 84.25 (±0.00)"
