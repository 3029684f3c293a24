"""The runs that a benchmark left in a folder, read leniently: what is not recorded has a default."""

from __future__ import annotations

import json
import math
import re
import zipfile
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from homefold.errors import DataError

__all__ = ["Artifact", "Run", "RunFolder", "Setup", "read_runs", "setups"]

RECORDS = "records.jsonl"
SETTINGS = ("source", "fraction", "shots", "corruption", "severity", "beta", "epsilon")


@dataclass(frozen=True)
class Run:
    """One finished or failed run.

    Args:
        dataset: name of the data.
        target: the domain that was not trained on.
        method: key of the method.
        accuracy: share of target images answered rightly, 0 to 1; None for a failed run.
        seed: of the training.
        suite: what the run was part of; empty when it was run alone.
        preset: name of the settings.
        backbone: name of the network.
        protocol: name of the protocol.
        selection: on what the model was selected.
        images: how many target images there were.
        error: why it failed; empty when it did not.
        run_id: names its artifacts.
        hardware: what it ran on.
        commit: of the code.
        command: that started it, where that was recorded.
        training_seconds: of all stages.
        seconds_per_image: of inference.
        versions: of the packages that decide the result.
        config: the whole configuration.
        facts: settings of the protocol and anything else that was measured.
    """

    dataset: str
    target: str
    method: str
    accuracy: float | None
    seed: int = 0
    suite: str = ""
    preset: str = ""
    backbone: str = ""
    protocol: str = ""
    selection: str = ""
    images: int = 0
    error: str = ""
    run_id: str = ""
    hardware: str = ""
    commit: str = ""
    command: str = ""
    training_seconds: float | None = None
    seconds_per_image: float | None = None
    versions: dict[str, str] = field(default_factory=dict)
    config: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether it has an accuracy."""
        return self.accuracy is not None

    @property
    def percent(self) -> float:
        """The accuracy in percent; NaN for a failed run."""
        return math.nan if self.accuracy is None else 100 * self.accuracy

    @property
    def oracle(self) -> bool:
        """Whether the model was selected on the target itself."""
        return "oracle" in self.selection.lower()

    @property
    def identity(self) -> Hashable:
        """What tells it from every other run; a repetition has the same."""
        settings = tuple(str(self.facts.get(name)) for name in SETTINGS)
        names = (self.suite, self.dataset, self.backbone, self.preset, self.protocol, self.selection)
        return (*names, self.target, self.method, self.seed, settings)


@dataclass(frozen=True)
class Setup:
    """What runs must share for their figures to be comparable.

    Args:
        dataset: name of the data.
        backbone: name of the network.
        preset: name of the settings.
        selection: on what models were selected.
    """

    dataset: str
    backbone: str
    preset: str
    selection: str

    @property
    def title(self) -> str:
        """In words, with a mark when models were selected on the target."""
        mark = "selected on the target (oracle)" if "oracle" in self.selection.lower() else ""
        return " · ".join(part for part in (self.dataset, self.backbone, self.preset, mark) if part)

    @property
    def slug(self) -> str:
        """For names of files."""
        parts = (self.dataset, self.backbone, self.preset, "oracle" if "oracle" in self.selection.lower() else "")
        return re.sub(r"[^a-z0-9]+", "-", "-".join(filter(None, parts)).lower()).strip("-")


@dataclass(frozen=True, eq=False)
class Artifact:
    """What a run kept for pictures.

    Args:
        arrays: by name; see `docs/report.md` for their shapes.
        class_names: one a class; empty when they were not kept.
        source_domain_names: one a source domain; empty when they were not kept.
    """

    arrays: dict[str, np.ndarray]
    class_names: tuple[str, ...] = ()
    source_domain_names: tuple[str, ...] = ()

    def has(self, *names: str) -> bool:
        """Whether all these arrays are there and not empty."""
        return all(name in self.arrays and self.arrays[name].size > 0 for name in names)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def class_name(self, label: int) -> str:
        """The name of a class, or its number."""
        return self.class_names[label] if 0 <= label < len(self.class_names) else str(label)

    def source_name(self, domain: int) -> str:
        """The name of a source domain, or its number."""
        return self.source_domain_names[domain] if 0 <= domain < len(self.source_domain_names) else f"source {domain}"


@dataclass(frozen=True, eq=False)
class RunFolder:
    """All runs of a folder.

    Args:
        folder: where they lie.
        runs: each once, a repeated one as it ended last; a success is never replaced by a failure.
    """

    folder: Path
    runs: tuple[Run, ...]

    @cached_property
    def problems(self) -> list[str]:
        """Artifacts that are there but cannot be read, filled as they are tried."""
        return []

    @cached_property
    def _artifacts(self) -> dict[str, Artifact | None]:
        return {}

    def artifact(self, run: Run) -> Artifact | None:
        """What a run kept for pictures; None when it kept nothing."""
        if not run.run_id or not run.ok:
            return None
        if run.run_id not in self._artifacts:
            self._artifacts[run.run_id] = self._read_artifact(run.run_id)
        return self._artifacts[run.run_id]

    def _read_artifact(self, run_id: str) -> Artifact | None:
        path = self.folder / "artifacts" / f"{run_id}.npz"
        if not path.is_file():
            return None
        try:
            with np.load(path, allow_pickle=False) as file:
                arrays = {name: file[name] for name in file.files}
            names = _read_names(path.with_suffix(".json"))
        except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
            self.problems.append(f"{path.name} cannot be read ({error})")
            return None
        return Artifact(
            _renamed(arrays), *(kept or named for kept, named in zip(names, _kept_names(arrays), strict=True))
        )


# Names under which benchmarks keep the same arrays.
_OTHER_NAMES = {
    "thumb_target": "thumbnails",
    "thumb_index": "thumbnail_index",
    "thumb_source_before": "nearest_before",
    "thumb_source_after": "nearest_after",
    "thumb_labels_before": "nearest_before_labels",
    "thumb_labels_after": "nearest_after_labels",
    "curve_loss": "loss_curves",
    "curve_elbow": "loss_elbows",
}
_DIMENSIONS = {"nearest_before": 5, "nearest_after": 5, "nearest_before_labels": 2, "nearest_after_labels": 2}


def _renamed(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays by the names the report knows; a single nearest neighbour stands as the only one of its row."""
    renamed = {_OTHER_NAMES.get(name, name): values for name, values in arrays.items()}
    for name, dimensions in _DIMENSIONS.items():
        if name in renamed and renamed[name].ndim == dimensions - 1:
            renamed[name] = renamed[name][:, None]
    if "target_index" in renamed and "labels" in renamed:
        renamed.setdefault("target_feature_labels", renamed["labels"][renamed["target_index"]])
    return renamed


def _kept_names(arrays: dict[str, np.ndarray]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of classes and source domains that stand among the arrays."""
    classes, domains = (arrays.get(name, np.array([])) for name in ("class_names", "domain_names"))
    return tuple(map(str, classes)), tuple(map(str, domains))


def _read_names(path: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    values = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    values = values if isinstance(values, dict) else {}
    classes, domains = (values.get(name) or () for name in ("class_names", "source_domain_names"))
    return tuple(map(str, classes)), tuple(map(str, domains))


def read_runs(folder: Path | str) -> RunFolder:
    """Every run of a folder that `homefold bench` wrote.

    Args:
        folder: holds `records.jsonl` and perhaps `artifacts/`.
    """
    folder = Path(folder)
    path = folder / RECORDS
    if not folder.exists():
        raise DataError(f"there is no folder {folder}; homefold bench SUITE --data PATH --out {folder} makes one.")
    if not path.is_file():
        raise DataError(f"{folder} holds no {RECORDS}; expected a folder that homefold bench wrote.")
    found: dict[Hashable, Run] = {}
    for row in _rows(path):
        run = _run(row)
        before = found.get(run.identity)
        if before is None or run.ok or not before.ok:
            found[run.identity] = run
    if not found:
        raise DataError(f"{path} holds no runs yet; start homefold bench again with --out {folder}.")
    return RunFolder(folder, tuple(found.values()))


def _rows(path: Path) -> list[dict[str, Any]]:
    """Every whole line; a last one that a crash cut short is left out."""
    lines = path.read_text(encoding="utf-8").split("\n")
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            if not isinstance(row, dict):
                raise ValueError("not an object")
        except ValueError as error:
            if number == len(lines):
                break
            raise DataError(f"{path}, line {number} is not a run record ({error}); remove or repair it.") from None
        rows.append(row)
    return rows


def _run(row: dict[str, Any]) -> Run:
    def text(name: str, default: str = "") -> str:
        value = row.get(name)
        return default if value is None else str(value)

    def mapping(name: str) -> dict[str, Any]:
        value = row.get(name)
        return value if isinstance(value, dict) else {}

    accuracy, error = _accuracy(row)
    facts, seconds = mapping("facts"), mapping("seconds")
    sources = facts.get("sources")
    if "source" not in facts and isinstance(sources, list) and len(sources) == 1:
        facts = {**facts, "source": sources[0]}
    return Run(
        dataset=text("dataset", "unnamed"),
        target=text("target", "unnamed"),
        method=text("method", "unnamed"),
        accuracy=accuracy,
        error=error,
        seed=int(row.get("seed") or 0),
        images=int(row.get("images") or 0),
        **{name: text(name) for name in ("suite", "preset", "backbone", "protocol", "selection")},
        **{name: text(name) for name in ("hardware", "commit", "command")},
        run_id=text("run_id") or text("run"),
        training_seconds=_number(row.get("training_seconds", seconds.get("training"))),
        seconds_per_image=_number(row.get("inference_seconds_per_image", seconds.get("inference_per_image"))),
        versions={str(name): str(value) for name, value in mapping("versions").items()},
        config=mapping("config"),
        facts=facts,
    )


def _accuracy(row: dict[str, Any]) -> tuple[float | None, str]:
    if row.get("status") == "failed":
        return None, str(row.get("error") or "no reason was recorded")
    accuracy = _number(row.get("accuracy"))
    if accuracy is None:
        return None, "no accuracy was recorded"
    if not 0 <= accuracy <= 1:
        return None, f"the recorded accuracy {accuracy:g} is no share between 0 and 1"
    return accuracy, ""


def _number(value: Any) -> float | None:
    usable = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if usable else None


def setups(runs: Sequence[Run]) -> dict[Setup, list[Run]]:
    """The runs by what makes them comparable, in the order they came."""
    grouped: dict[Setup, list[Run]] = {}
    for run in runs:
        grouped.setdefault(Setup(run.dataset, run.backbone, run.preset, run.selection), []).append(run)
    return grouped
