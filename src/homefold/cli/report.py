"""`homefold report`: tables and figures from finished runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from homefold.cli.output import note, print_json, result_console, result_table, typed
from homefold.cli.parsing import Arg, JsonFlag, Names, Positional, parse
from homefold.errors import ConfigError

__all__ = ["ReportOptions", "run"]


@dataclass(frozen=True)
class ReportOptions:
    """Make tables and figures from the runs that homefold bench recorded: Markdown, CSV, LaTeX and one HTML file.

    Example: homefold report runs --out report
    """

    runs: Annotated[tuple[Path, ...], Positional("RUNS …")]
    """The folder that homefold bench wrote, or a file of its records; several are one study that was shared among
    machines."""
    out: Annotated[Path | None, Arg("FOLDER")] = None
    """The folder for the report; RUNS/report by default, for a file RECORDS-report beside it. Several RUNS need one."""
    format: Literal["all", "md", "csv", "latex", "html"] = "all"
    """What to write; csv and latex are tables alone, and take no time."""
    mixed_code: bool = False
    """Go on where several versions of the code made the runs, and say so on the page."""
    plugin: Annotated[Names, Arg("FILE.py")] = ()
    """Python files to run first, which register figures of your own (docs/report.md)."""
    json: JsonFlag = False


def run(arguments: Sequence[str]) -> int:
    """Read, draw, write and tell."""
    options = parse(ReportOptions, "report", arguments)
    from homefold.report.code_versions import require_one_code_version
    from homefold.report.document import build_report  # imports matplotlib and scikit-learn, which --help does not need
    from homefold.report.runs import read_runs
    from homefold.report.writing import FORMATS, write_report
    from homefold.runtime.progress import RichReporter

    if not options.runs:
        raise ConfigError("name the folder that homefold bench wrote: homefold report RUNS.")
    if len(options.runs) > 1 and options.out is None:
        raise ConfigError("a report of several RUNS lies beside none of them; say where with --out FOLDER.")
    folder = read_runs(*options.runs)
    if not options.mixed_code:
        require_one_code_version(folder.code_versions)
    out = options.out or _default_out(options.runs[0])
    formats = FORMATS if options.format == "all" else (options.format,)
    command = typed("homefold", "report", *arguments)
    figures = bool({"md", "html"} & set(formats))
    report = build_report(folder, figures=figures, command=command, reporter=RichReporter())
    files = write_report(report, out, formats)
    for problem in report.problems:
        note(f"warning: {problem}; left out.")
    if options.json:
        print_json({"runs": [*map(str, options.runs)], "out": str(out), "files": files, **report.as_dict()})
    else:
        _print_summary(report.as_dict(), files)
    return 0


def _default_out(runs: Path) -> Path:
    return runs.with_name(f"{runs.name.partition('.jsonl')[0]}-report") if runs.is_file() else runs / "report"


def _print_summary(report: dict[str, Any], files: dict[str, list[str]]) -> None:
    console = result_console()
    for verdict in report["verdict"]:
        console.print(verdict["title"], style="dim", soft_wrap=True)
        for finding in verdict["findings"]:
            console.print(f"{finding['leads']} ({finding['support']})", style="bold", soft_wrap=True)
            for sentence in finding["behind"]:
                console.print(f"  {sentence}", soft_wrap=True)
    for table in report["tables"]:
        shown = result_table("", *table["columns"], title=table["title"], numbers=len(table["columns"]))
        for row in table["rows"]:
            if not row["published"]:
                shown.add_row(row["label"], *(_marked(cell) for cell in row["cells"].values()))
        console.print(shown)
    if report["not_in_these_runs"]:
        names = ", ".join(entry["figure"] for entry in report["not_in_these_runs"])
        console.print(f"Not in these runs: {names}.", soft_wrap=True)
    for kind, paths in files.items():
        where = paths[0] if len(paths) == 1 else f"{len(paths)} files in {Path(paths[0]).parent}"
        console.print(f"{kind:<9} {where}", soft_wrap=True)


def _marked(cell: dict[str, Any]) -> str:
    """The figure, how many of its runs are there where some are not, and a star where it is surely the best."""
    few = f" ({cell['runs']} of {cell['expected']})" if 0 < cell["runs"] < cell["expected"] else ""
    return f"{cell['text']}{few}{' *' if cell['best'] else ''}"
