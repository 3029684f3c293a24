"""The whole report as one Markdown file that points to the figures beside it."""

from __future__ import annotations

from homefold.report.document import Report
from homefold.report.renderers import markdown_text, to_markdown

__all__ = ["report_markdown"]


def report_markdown(report: Report) -> str:
    """Headings, tables and links to `figures/`, in the order of the HTML file."""
    lines = [f"# {markdown_text(report.title)}", ""]
    lines += [f"- **{name}**: {markdown_text(value.replace(chr(10), '; '))}" for name, value in report.facts.items()]
    lines += ["", "## Tables", "", *(to_markdown(table) for table in report.tables)]
    if report.drawn:
        lines += ["## Figures", ""]
    for section in report.drawn:
        lines += [f"### {section.title}", ""]
        for figure in section.figures:
            alt = markdown_text(figure.alt).replace("]", "\\]")
            lines += [f"![{alt}](figures/{figure.name}.{figure.format})", ""]
            lines += [f"**{markdown_text(figure.title)}.** {markdown_text(figure.caption)}", ""]
    for heading, entries in (
        ("Not in these runs", [f"{section.title}: needs {section.needs}" for section in report.absent]),
        ("Planned but not run", list(report.missing)),
        ("Failed runs", list(report.failures)),
        ("Artifacts that cannot be read", list(report.problems)),
    ):
        if entries:
            lines += [f"## {heading}", "", *(f"- {markdown_text(entry)}" for entry in entries), ""]
    return "\n".join(lines).rstrip() + "\n"
