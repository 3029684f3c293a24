"""The whole report as one HTML file that needs nothing beside it: no network, no other file, no script."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence

from homefold.report.document import Report
from homefold.report.drawing import Figure
from homefold.report.figures import FigureSection
from homefold.report.renderers import to_html

__all__ = ["report_html"]

_TYPES = {"svg": "image/svg+xml", "png": "image/png"}

_STYLE = """
:root { color-scheme: light dark; --paper: #ffffff; --ink: #1b1f24; --soft: #57606a; --line: #d8dee4;
  --tint: #f3f6f9; --link: #0059a8; --warn: #9a3a00; --card: #ffffff; }
@media (prefers-color-scheme: dark) { :root { --paper: #12161b; --ink: #e6eaee; --soft: #9aa5b1; --line: #2c343d;
  --tint: #1a2027; --link: #7cc0ff; --warn: #ffb37a; --card: #161b21; } }
* { box-sizing: border-box; }
html { scroll-behavior: smooth; -webkit-text-size-adjust: 100%; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 16px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", sans-serif; }
a { color: var(--link); }
.page { max-width: 96rem; margin: 0 auto; padding: 1.25rem clamp(1rem, 3vw, 3rem) 4rem; }
h1 { font-size: clamp(1.5rem, 4.5vw, 2.2rem); line-height: 1.2; margin: 0.4rem 0 1rem; overflow-wrap: anywhere; }
h2 { font-size: 1.35rem; margin: 2.6rem 0 0.8rem; padding-bottom: 0.3rem; border-bottom: 2px solid var(--line); }
h3 { font-size: 1.05rem; margin: 1.8rem 0 0.6rem; overflow-wrap: anywhere; }
dl.facts { display: grid; grid-template-columns: max-content minmax(0, 1fr); gap: 0.25rem 1.2rem; margin: 0;
  padding: 1rem 1.2rem; background: var(--tint); border: 1px solid var(--line); border-radius: 10px; }
dl.facts dt { color: var(--soft); } dl.facts dd { margin: 0; overflow-wrap: anywhere;
  white-space: pre-line; }
nav { font-size: 0.94rem; }
nav summary { cursor: pointer; font-weight: 600; padding: 0.5rem 0; }
nav ol { list-style: none; margin: 0; padding: 0; }
nav ol ol { padding-left: 0.9rem; margin-bottom: 0.4rem; border-left: 2px solid var(--line); }
nav li a { display: block; padding: 0.18rem 0; text-decoration: none; overflow-wrap: anywhere; }
nav li a:hover { text-decoration: underline; }
nav li li a { font-size: 0.88rem; color: var(--soft); }
.scroll { overflow-x: auto; max-width: 100%; border: 1px solid var(--line); border-radius: 10px; }
.scroll:focus-visible { outline: 2px solid var(--link); }
table { border-collapse: separate; border-spacing: 0; width: 100%; font-variant-numeric: tabular-nums; }
th, td { padding: 0.55rem 0.9rem; text-align: right; vertical-align: top; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
tbody tr:last-child > * { border-bottom: 0; }
thead th { background: var(--tint); font-weight: 600; font-size: 0.9rem; }
th:first-child { text-align: left; position: sticky; left: 0; background: var(--paper); font-weight: 600;
  white-space: normal; min-width: 7.5rem; max-width: 15rem; border-right: 1px solid var(--line); }
thead th:first-child { background: var(--tint); }
td > span, td > strong { display: block; }
td strong { color: var(--ink); }
td small, th small { display: block; font-weight: 400; color: var(--soft); font-size: 0.76rem; line-height: 1.4; }
td small.gaps, td.absent > span, .oracle { color: var(--warn); }
tr.published > * { color: var(--soft); font-style: italic; font-weight: 400; }
.caption, figcaption { color: var(--soft); font-size: 0.86rem; margin: 0.55rem 0 0; max-width: 75rem; }
.oracle { font-weight: 600; margin: 0 0 0.5rem; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 26rem), 1fr)); gap: 1.2rem; }
figure { margin: 0; padding: 0.9rem; background: var(--card); border: 1px solid var(--line); border-radius: 10px;
  min-width: 0; }
figure.wide { grid-column: 1 / -1; }
figure h4 { margin: 0 0 0.6rem; font-size: 0.98rem; }
figure img { display: block; width: 100%; height: auto; max-width: 40rem; margin: 0 auto; }
figure.wide img { max-width: 60rem; }
img.photo { border-radius: 6px; background: #ffffff; }
ul.list { padding-left: 1.2rem; } ul.list li { margin: 0.2rem 0; overflow-wrap: anywhere; }
@media (min-width: 70rem) {
  .columns { display: grid; grid-template-columns: 15.5rem minmax(0, 1fr); gap: 3rem; align-items: start; }
  nav { position: sticky; top: 1rem; max-height: calc(100vh - 2rem); overflow-y: auto; } }
@media (max-width: 40rem) {
  dl.facts { grid-template-columns: minmax(0, 1fr); gap: 0; padding: 0.8rem 1rem; }
  dl.facts dt { font-size: 0.8rem; margin-top: 0.35rem; }
  th, td { padding: 0.5rem 0.65rem; font-size: 0.92rem; }
  th:first-child { max-width: 8.5rem; min-width: 6.5rem; } figure { padding: 0.6rem; } }
@media print {
  :root { --paper: #fff; --ink: #000; --soft: #333; --line: #bbb; --tint: #f2f2f2; --card: #fff;
    --warn: #7a2e00; color-scheme: light; }
  nav { display: none; } .columns { display: block; } .page { max-width: none; padding: 0; }
  .scroll { overflow: visible; border: 0; } table { font-size: 0.72rem; } td small, th small { font-size: 0.62rem; }
  thead th { font-size: 0.72rem; }
  th, td { padding: 0.25rem 0.35rem; white-space: normal; } th:first-child { position: static; min-width: 0; }
  figure, tr { break-inside: avoid; } h2, h3, h4 { break-after: avoid; }
  .figures { grid-template-columns: repeat(2, minmax(0, 1fr)); } a { color: inherit; text-decoration: none; } }
"""


def report_html(report: Report) -> str:
    """The page as text: styles, tables and pictures all inside of it."""
    title = html.escape(report.title)
    parts = [
        _part("tables", "Tables", "\n".join(map(to_html, report.tables))),
        *(_family(family, sections) for family, sections in _families(report).items()),
        _list("absent", "Not in these runs", [f"{section.title}: needs {section.needs}" for section in report.absent]),
        _list("missing", "Planned but not run", report.missing),
        _list("failed", "Failed runs", report.failures),
        _list("unreadable", "Artifacts that cannot be read", report.problems),
    ]
    body = "\n".join(filter(None, parts))
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta http-equiv="Content-Security-Policy" content="default-src \'none\'; img-src data:; '
        "style-src 'unsafe-inline'\">\n"
        f'<title>{title}</title>\n<link rel="icon" href="data:,">\n<style>{_STYLE}</style>\n</head>\n<body>\n'
        f'<div class="page">\n<header>\n<h1>{title}</h1>\n{_facts(report.facts)}\n</header>\n'
        f'<div class="columns">\n{_contents(report)}\n<main>\n{body}\n</main>\n</div>\n</div>\n</body>\n</html>\n'
    )


def _facts(facts: dict[str, str]) -> str:
    entries = "\n".join(f"<dt>{html.escape(k)}</dt><dd>{html.escape(v)}</dd>" for k, v in facts.items())
    return f'<dl class="facts">\n{entries}\n</dl>'


def _contents(report: Report) -> str:
    tables = "".join(f'<li><a href="#table-{t.name}">{html.escape(t.title)}</a></li>' for t in report.tables)
    families = "".join(
        f'<li><a href="#{_anchor(family)}">{html.escape(family)}</a><ol>{"".join(map(_entry, sections))}</ol></li>'
        for family, sections in _families(report).items()
    )
    others = [("absent", "Not in these runs")] if report.absent else []
    others += [("missing", "Planned but not run")] if report.missing else []
    others += [("failed", "Failed runs")] if report.failures else []
    others += [("unreadable", "Artifacts that cannot be read")] if report.problems else []
    entries = "".join(f'<li><a href="#{anchor}">{html.escape(title)}</a></li>' for anchor, title in others)
    return (
        '<nav aria-label="Contents">\n<details open>\n<summary>Contents</summary>\n'
        f'<ol><li><a href="#tables">Tables</a><ol>{tables}</ol></li>{families}{entries}</ol>\n</details>\n</nav>'
    )


def _part(anchor: str, title: str, content: str) -> str:
    return f'<section id="{anchor}">\n<h2>{html.escape(title)}</h2>\n{content}\n</section>'


def _list(anchor: str, title: str, entries: Sequence[str]) -> str:
    if not entries:
        return ""
    items = "\n".join(f"<li>{html.escape(entry)}</li>" for entry in entries)
    return _part(anchor, title, f'<ul class="list">\n{items}\n</ul>')


def _families(report: Report) -> dict[str, list[FigureSection]]:
    families: dict[str, list[FigureSection]] = {}
    for section in report.drawn:
        families.setdefault(section.family, []).append(section)
    return families


def _family(family: str, sections: Sequence[FigureSection]) -> str:
    figures = "\n".join(_figure(figure) for section in sections for figure in section.figures)
    return _part(_anchor(family), family, f'<div class="figures">\n{figures}\n</div>')


def _entry(section: FigureSection) -> str:
    return f'<li><a href="#figure-{section.figures[0].name}">{html.escape(section.title)}</a></li>'


def _figure(figure: Figure) -> str:
    data = base64.b64encode(figure.data).decode("ascii")
    width = ' class="wide"' if figure.wide else ""
    look = "chart" if figure.format == "svg" else "photo"
    return (
        f'<figure id="figure-{figure.name}"{width}>\n'
        f"<h4>{html.escape(figure.title)}</h4>\n"
        f'<img class="{look}" alt="{html.escape(figure.alt)}" src="data:{_TYPES[figure.format]};base64,{data}">\n'
        f"<figcaption>{html.escape(figure.caption)}</figcaption>\n</figure>"
    )


def _anchor(title: str) -> str:
    return "figures-" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
