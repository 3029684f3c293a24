"""The report as plain data: its verdict, tables and figures, what is not there, and how it was made."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from homefold.report.code_versions import in_words
from homefold.report.figures import FigureKind, build_figures
from homefold.report.names import shown_name
from homefold.report.runs import SETTINGS, Run, RunFolder, setups
from homefold.report.tables import build_tables
from homefold.report.tables.table import Table
from homefold.report.verdict import Verdict, verdicts
from homefold.runtime.progress import ProgressReporter

__all__ = ["Report", "build_report"]

_MIXED = "several versions of the code made these runs, so their figures may not compare:"


@dataclass(frozen=True)
class Report:
    """All that a report says.

    Args:
        verdicts: what stands at its head, one for each table that compares methods.
        facts: how it was made, by name.
        sections: of figures, in order; one without figures is named as absent.
        failures: a line for each failed run.
        missing: a line for each method with runs that were planned and have no record.
        problems: artifacts that could not be read.
    """

    title: str
    verdicts: tuple[Verdict, ...]
    facts: dict[str, str]
    tables: tuple[Table, ...]
    sections: tuple[FigureKind, ...]
    failures: tuple[str, ...]
    missing: tuple[str, ...]
    problems: tuple[str, ...]

    @property
    def drawn(self) -> tuple[FigureKind, ...]:
        """The sections that have figures."""
        return tuple(section for section in self.sections if section.figures)

    @property
    def absent(self) -> tuple[FigureKind, ...]:
        """The sections that have none."""
        return tuple(section for section in self.sections if not section.figures)

    @property
    def families(self) -> dict[str, list[FigureKind]]:
        """The sections that have figures, by family."""
        found: dict[str, list[FigureKind]] = {}
        for section in self.drawn:
            found.setdefault(section.family, []).append(section)
        return found

    @property
    def not_there(self) -> list[tuple[str, str, Sequence[str]]]:
        """Anchor, heading and entries of each list of what is not there, and why."""
        lists: list[tuple[str, str, Sequence[str]]] = [
            ("absent", "Not in these runs", [f"{section.title}: needs {section.needs}" for section in self.absent]),
            ("missing", "Planned but not run", self.missing),
            ("failed", "Failed runs", self.failures),
            ("unreadable", "Artifacts that cannot be read", self.problems),
        ]
        return [listed for listed in lists if listed[2]]

    def as_dict(self) -> dict[str, Any]:
        """Plain values of all but the pictures."""
        return {
            "title": self.title,
            "verdict": [asdict(verdict) for verdict in self.verdicts],
            "facts": self.facts,
            "tables": [table.as_dict() for table in self.tables],
            "figures": [
                {"name": figure.name, "section": section.title, "caption": figure.caption, "alt": figure.alt}
                for section in self.drawn
                for figure in section.figures
            ],
            "not_in_these_runs": [{"figure": section.title, "needs": section.needs} for section in self.absent],
            "failed_runs": list(self.failures),
            "missing_runs": list(self.missing),
            "unreadable_artifacts": list(self.problems),
        }


def build_report(
    folder: RunFolder, *, figures: bool = True, command: str = "", reporter: ProgressReporter | None = None
) -> Report:
    """Make every table, and every figure there is data for; tables alone (without `figures`) take no time."""
    tables = build_tables(folder)
    sections = build_figures(folder, reporter) if figures else []
    datasets = _names(run.dataset for run in folder.runs)
    return Report(
        title=f"Results on {datasets}",
        verdicts=tuple(verdicts(tables)),
        facts=_facts(folder, command),
        tables=tuple(tables),
        sections=tuple(sections),
        failures=tuple(_failure(run) for run in folder.runs if run.failed),
        missing=tuple(_missing(folder.missing)),
        problems=tuple(folder.problems),
    )


def _facts(folder: RunFolder, command: str) -> dict[str, str]:
    runs = folder.runs
    done, left = sum(run.ok for run in runs), sum(not run.no_signal for run in folder.missing)
    versions = dict.fromkeys(f"{name} {version}" for run in runs for name, version in run.versions.items())
    trained = _training_seconds(runs)
    commands = dict.fromkeys(run.command for run in (*runs, *folder.missing) if run.command)
    return {
        "Data": _names(run.dataset for run in runs),
        "Runs": f"{done} finished, {len(runs) - done} failed" + (f", {left} planned but not run" if left else ""),
        "Presets": _names(run.preset for run in runs),
        "Selection": _names(f"{setup.selection} †" if setup.oracle else setup.selection for setup in setups(runs)),
        "Hardware": _names(run.hardware for run in runs),
        "Training": f"{_duration(trained)} in all" if trained else "not recorded",
        "Versions": ", ".join(versions) or "not recorded",
        "Commit": _names(run.commit for run in runs),
        **({"Mixed code": f"{_MIXED} {in_words(folder.code_versions)}"} if len(folder.code_versions) > 1 else {}),
        "Command": "\n".join(commands) or "not recorded",
        **({"Report": command} if command else {}),
    }


def _training_seconds(runs: tuple[Run, ...]) -> float:
    """What all trainings took; a stage that several runs share counts once, where the records name their stages."""
    stages: dict[str, float] = {}
    for number, run in enumerate(runs):
        named = run.facts.get("stages")
        if named:
            stages |= {name: (about or {}).get("seconds") or 0 for name, about in named.items()}
        else:
            stages[f"run {number}"] = run.training_seconds or 0
    return sum(stages.values())


def _names(names: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(filter(None, names))) or "not recorded"


def _duration(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    minutes, left = divmod(rest, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {left} s" if minutes else f"{left} s"


def _failure(run: Run) -> str:
    settings = "".join(f", {name} {run.facts[name]}" for name in SETTINGS if name in run.facts)
    where = f"{run.suite or run.dataset}, {shown_name(run.method)} on {run.target}, seed {run.seed}{settings}"
    return f"{where}: {run.error}"


def _missing(runs: tuple[Run, ...]) -> list[str]:
    """What was asked for and not done, a line for each suite, setup and method."""
    grouped: dict[tuple[str, str, str], list[Run]] = {}
    for setup, members in setups([run for run in runs if not run.no_signal]).items():
        for run in members:
            grouped.setdefault((run.suite, setup.title, run.method), []).append(run)
    lines = []
    for (suite, title, method), members in grouped.items():
        count = f"{len(members)} run{'s' if len(members) > 1 else ''}"
        targets = _names(run.target for run in members)
        seeds = ", ".join(map(str, sorted({run.seed for run in members})))
        lines.append(f"{suite}, {title}, {shown_name(method)}: {count} (targets {targets}; seeds {seeds})")
    return lines
