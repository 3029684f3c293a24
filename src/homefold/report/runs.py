"""The runs that a benchmark left in a folder, read leniently: what is not recorded has a default."""

from __future__ import annotations

import hashlib
import math
import re
import zipfile
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from homefold.config.migration import current_settings
from homefold.errors import DataError
from homefold.evaluation.plan_file import NO_SIGNAL, read_plan
from homefold.evaluation.record_lines import is_number, not_a_record, read_record_lines
from homefold.evaluation.records import RunRecord
from homefold.evaluation.selection import Choice, settings_of
from homefold.report.artifacts import Artifact, read_artifact_file
from homefold.report.candidates import settled
from homefold.report.code_versions import code_versions
from homefold.report.names import remember_titles

__all__ = ["Run", "RunFolder", "Setup", "numbered", "read_runs", "setups", "slug"]

RECORDS = "records.jsonl"
_LONGEST_NAME = 160
USUAL_SELECTION = "source-validation"
_RECORDED = tuple(field.name for field in fields(RunRecord))
SETTINGS = ("source", "fraction", "shots", "corruption", "severity", "beta", "epsilon")


@dataclass(frozen=True)
class Run(RunRecord):
    """A record read leniently: what it does not say is empty, and a failed run has no accuracy and says why.

    Args:
        recorded: whether it was done at all; not so for one that is only planned.
    """

    dataset: str = ""
    target: str = ""
    method: str = ""
    accuracy: float | None = None
    images: int = 0
    seed: int = 0
    protocol: str = ""
    selection: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    hardware: str = ""
    versions: dict[str, str] = field(default_factory=dict)
    recorded: bool = True

    @property
    def ok(self) -> bool:
        """Whether it has an accuracy."""
        return self.accuracy is not None

    @property
    def failed(self) -> bool:
        """Whether it was tried and has none."""
        return self.recorded and self.accuracy is None

    @property
    def no_signal(self) -> str:
        """Why its method was refused in this protocol, where it would have trained as Deep All; else empty."""
        return "" if self.recorded else str(self.facts.get(NO_SIGNAL, ""))

    @property
    def looks(self) -> int | None:
        """How many views of an image it answers by; None where its record has no configuration."""
        seen = current_settings(self.config).get("look") or {}
        tints = (self.config.get("projection") or {}).get("tints")  # of earlier versions
        counts = [seen.get(name) or 0 for name in ("views", "textures")] + [tints or 0]
        return sum(counts) if seen.get("views") is not None else None

    @property
    def percent(self) -> float:
        """The accuracy in percent; NaN for a failed run."""
        return math.nan if self.accuracy is None else 100 * self.accuracy

    @property
    def training_seconds(self) -> float | None:
        """Of all stages."""
        return self.seconds.get("training")

    @property
    def seconds_per_image(self) -> float | None:
        """Of inference."""
        return self.seconds.get("inference_per_image")

    @property
    def identity(self) -> Hashable:
        """What tells it from every other run; a repetition has the same."""
        return (self.place, self.seed, settings_of(self))

    @property
    def place(self) -> Hashable:
        """What it has in common with the runs of other seeds and other candidates."""
        settings = tuple(str(self.facts.get(name)) for name in SETTINGS)
        names = (self.suite, self.dataset, self.backbone, self.preset, self.changes, self.protocol, self.selection)
        return (*names, self.target, self.method, self.recipe == "authors", settings)


@dataclass(frozen=True)
class Setup:
    """What runs must share for their figures to be comparable."""

    dataset: str
    backbone: str
    preset: str
    selection: str
    changes: str = ""

    @property
    def oracle(self) -> bool:
        """Whether models were selected on the target itself."""
        return "oracle" in self.selection.lower()

    @property
    def title(self) -> str:
        """In words: with the changes from the preset, and how models were selected where it is not the usual way."""
        usual = self.selection in ("", USUAL_SELECTION)
        chosen = "selected on the target (oracle)" if self.oracle else "" if usual else f"selection {self.selection}"
        names = (self.dataset, self.backbone, self.preset, self._short_changes, chosen)
        return " · ".join(part for part in names if part)

    @property
    def slug(self) -> str:
        """For names of files; setups that differ have different ones unless their changes are long."""
        return slug(self.dataset, self.backbone, self.preset, *self.distinctions)

    @property
    def distinctions(self) -> tuple[str, ...]:
        """What tells it from the usual setup of the same preset, short enough for names of files."""
        chosen = "" if self.selection == USUAL_SELECTION else "oracle" if self.oracle else self.selection
        return tuple(part for part in (slug(self._short_changes)[:40].strip("-"), chosen) if part)

    @property
    def _short_changes(self) -> str:
        """The changes with the file of the weights by its name: where it lay says nothing to a reader."""
        return re.sub(r"(features\.weights=)\S*/", r"\1", self.changes)


def slug(*parts: str) -> str:
    """Words that are safe in the name of a file, joined by hyphens; a long one is cut, and still unlike any other.

    >>> slug("digits_dg", "", "ResNet-18")
    'digits-dg-resnet-18'
    """
    name = re.sub(r"[^a-z0-9]+", "-", "-".join(filter(None, parts)).lower()).strip("-")
    if len(name) <= _LONGEST_NAME:
        return name
    return f"{name[:_LONGEST_NAME]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def numbered(name: str, seen: Counter[str]) -> str:
    """The name, with a number where it was given before: each stands once."""
    seen[name] += 1
    return name if seen[name] == 1 else f"{name}-{seen[name]}"


@dataclass(frozen=True, eq=False)
class RunFolder:
    """All runs of a folder.

    Args:
        folder: where they lie.
        runs: each once, a repeated one as it ended last; a success is never replaced by a failure. Of candidates only
            those that their selection rule chooses.
        choices: what each selection rule chooses among candidates.
        code_versions: by which versions of the code finished runs were made, all candidates among them.
        missing: those that were planned and have no record.
        others: where more of them lie.
        problems: artifacts that are there but cannot be read, filled as they are tried.
    """

    folder: Path
    runs: tuple[Run, ...]
    missing: tuple[Run, ...] = ()
    others: tuple[Path, ...] = ()
    choices: tuple[Choice[Run], ...] = ()
    code_versions: Mapping[str, int] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    _artifacts: dict[str, Artifact | None] = field(default_factory=dict)

    def artifact(self, run: Run) -> Artifact | None:
        """What a run kept for pictures; None when it kept nothing."""
        if not run.run or not run.ok:
            return None
        if run.run not in self._artifacts:
            self._artifacts[run.run] = self._read_artifact(run.run)
        return self._artifacts[run.run]

    def _read_artifact(self, run_id: str) -> Artifact | None:
        name = f"{run_id}.npz"
        if Path(name).name != name:
            return None  # no run of a benchmark is called like a path
        try:
            places = (folder / "artifacts" / name for folder in (self.folder, *self.others))
            path = next((place for place in places if place.is_file()), None)
            return None if path is None else read_artifact_file(path)
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            self.problems.append(f"{name} cannot be read ({error})")
            return None


def read_runs(path: Path | str, *more: Path | str) -> RunFolder:
    """Every run of a folder that `homefold bench` wrote, or of a file of its records, or of several of either.

    A folder has `records.jsonl` and perhaps `artifacts/` and `plan.json`. What `more` repeats, parts of the same study
    from another machine say, counts as run later.
    """
    parts = [_read_one(Path(part)) for part in (path, *more)]
    for run in (run for part in parts for run in part.runs):
        remember_titles(run.facts.get("titles") or {})
    found = _last_of_each(_of_the_last_code([run for part in parts for run in part.runs]))
    missing = {run.identity: run for part in parts for run in part.missing if run.identity not in found}
    first, *others = (part.folder for part in parts)
    runs, left, chosen = settled(list(found.values()), list(missing.values()))
    made_by = code_versions(found.values())
    return RunFolder(first, tuple(runs), tuple(left), tuple(others), tuple(chosen), made_by)


def _last_of_each(runs: Iterable[Run]) -> dict[Hashable, Run]:
    """Each run once, by its identity: as it ended last, and a success is never replaced by a failure."""
    found: dict[Hashable, Run] = {}
    for run in runs:
        before = found.get(run.identity)
        if before is None or run.ok or not before.ok:
            found[run.identity] = run
    return found


def _of_the_last_code(runs: Sequence[Run], asked: Sequence[Run] = ()) -> list[Run]:
    """Without those of an older version of a method that is not the package's: no figure of it stands for a newer one.

    Both in the order in which they ended or were asked for; where that is known, what was `asked` has the last word.
    """
    last = {run.method: run.facts.get("code") or "" for run in (*runs, *asked)}
    return [run for run in runs if (run.facts.get("code") or "") == last[run.method]]


def _read_one(path: Path) -> RunFolder:
    folder = path.parent if path.is_file() else path
    records = path if path.is_file() else path / RECORDS
    if not path.exists():
        raise DataError(f"there is no folder {path}; homefold bench SUITE --data PATH --out {path} makes one.")
    if not records.is_file() and (asked := read_plan(path)):
        raise DataError(f"{path} holds a plan of {len(asked)} runs, and none of them has ended yet; come back later.")
    if not records.is_file():
        raise DataError(f"{path} holds no {RECORDS}; expected a folder that homefold bench wrote.")
    planned = [_run(row, recorded=False) for row in read_plan(folder)] if records.name == RECORDS else []
    ended = [_run(row) for row in _rows(records)]
    if not ended:
        raise DataError(f"{records} holds no runs yet; start homefold bench again for {folder}.")
    found = _last_of_each(_of_the_last_code(ended, planned))
    missing = {run.identity: run for run in _of_the_last_code(planned) if run.identity not in found}
    return RunFolder(folder, tuple(found.values()), tuple(missing.values()))


def _rows(path: Path) -> list[dict[str, Any]]:
    """Every whole line; a last one that a crash cut short is left out."""
    rows = []
    for number, row in read_record_lines(path):
        if absent := [name for name in ("dataset", "target", "method") if row.get(name) is None]:
            raise not_a_record(path, number, f"it has no {', no '.join(absent)}")
        rows.append(row)
    return rows


def _run(row: dict[str, Any], *, recorded: bool = True) -> Run:
    values = {name: row[name] for name in _RECORDED if row.get(name) is not None}
    values["accuracy"], values["error"] = _accuracy(row) if recorded else (None, "")
    sources = values.get("facts", {}).get("sources") or []
    if len(sources) == 1:
        values["facts"] = {**values["facts"], "source": sources[0]}
    return Run(**values, recorded=recorded)


def _accuracy(row: dict[str, Any]) -> tuple[float | None, str]:
    if row.get("status") == "failed":
        return None, row.get("error") or "no reason was recorded"
    accuracy = row.get("accuracy")
    if not is_number(accuracy):
        return None, "no accuracy was recorded"
    if not 0 <= accuracy <= 1:
        return None, f"the recorded accuracy {accuracy:g} is no share between 0 and 1"
    return float(accuracy), ""


def setups(runs: Sequence[Run]) -> dict[Setup, list[Run]]:
    """The runs by what makes them comparable, in the order they came."""
    grouped: dict[Setup, list[Run]] = {}
    for run in runs:
        grouped.setdefault(Setup(run.dataset, run.backbone, run.preset, run.selection, run.changes), []).append(run)
    return grouped
