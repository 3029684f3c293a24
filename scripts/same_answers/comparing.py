"""Comparing what two checkouts gave: tensors, arrays and numbers as bytes, where both sides have them."""

from __future__ import annotations

import hashlib
import json
import math
import struct
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

__all__ = ["Comparison", "compare_arrays", "compare_folders", "compare_tensors", "compare_values"]

_TIMES = {"seconds", "commit", "command", "hardware", "versions"}
_SETTINGS = {"config", "changes", "projection", "look", "search"}
_NAMES = {"run", "stages", "model", "size_bytes", "error", "code"}
_MAY_DIFFER = _TIMES | _SETTINGS | _NAMES
_MAY_DIFFER_AT = {"facts.method"}

_IN_EVERY_ANSWER = ("label", "probabilities", "off_manifold", "similarity_after", "iterations")
_IN_EVERY_ARCHIVE = ("labels", "predicted", "probabilities", "off_manifold")
_IN_EVERY_RECORD = ("accuracy", "images", "status")
_IDENTITY = ("suite", "dataset", "target", "method", "backbone", "seed", "protocol", "selection", "preset")


@dataclass
class Comparison:
    """What came of comparing two things.

    Args:
        what: was compared.
        unit: what is counted.
        count: how many were compared.
        differences: sentences.
        largest: absolute difference of two numbers; 0 where none differs, infinite where it cannot be said.
        notes: sentences about what was left uncompared.
    """

    what: str
    unit: str = "values"
    count: int = 0
    differences: list[str] = field(default_factory=list)
    largest: float = 0.0
    notes: list[str] = field(default_factory=list)

    def differs(self, sentence: str, by: float = math.inf) -> None:
        """Add a difference."""
        self.differences.append(sentence)
        self.largest = max(self.largest, by)

    def require(self, names: Sequence[str], old: Mapping[str, Any], new: Mapping[str, Any], about: str) -> None:
        """Each of these names that one side lacks is a difference."""
        for name in names:
            for side, values in (("OLD", old), ("NEW", new)):
                if name not in values:
                    self.differs(f"{about}{name} is missing in {side}")

    def common(self, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
        """The names that both sides have; a note says which others there are."""
        for side, one, other in (("OLD", old, new), ("NEW", new, old)):
            if alone := sorted(name for name in one if name not in other):
                more = f" and {len(alone) - 8} more" if len(alone) > 8 else ""
                self.notes.append(f"only in {side}, not compared: {', '.join(alone[:8])}{more}")
        return [name for name in old if name in new]


def compare_folders(old: Path, new: Path, reopened: Mapping[str, str]) -> list[Comparison]:
    """Compare all that two checkouts gave for one case.

    Args:
        old: OLD's folder.
        new: NEW's.
        reopened: for each file that NEW wrote with OLD's models, the file that OLD wrote with them.
    """
    results = []
    for path in sorted(old.iterdir()):
        if not path.name.startswith("."):
            results += _compare_paths(path.name, path, new / path.name)
    for of_new, of_old in reopened.items():
        results += _compare_paths(f"{of_old} of OLD's model", old / of_old, new / of_new)
    return results


def _compare_paths(what: str, old: Path, new: Path) -> list[Comparison]:
    if not new.exists():
        result = Comparison(what)
        result.differs(f"NEW has no {new.name}")
        return [result]
    if (old / "records.jsonl").exists():
        return _compare_runs(what, old, new)
    if old.is_dir():
        return [compare_tensors(what, _read_tensors(old), _read_tensors(new))]
    return [
        {".jsonl": _compare_answers, ".json": _compare_reports, ".npz": _compare_archives}[old.suffix](what, old, new)
    ]


def compare_tensors(
    what: str, old: Mapping[str, np.ndarray], new: Mapping[str, np.ndarray], *, more_allowed: bool = False
) -> Comparison:
    """Compare tensors as a multiset of types, shapes and bytes: what they are called does not matter.

    Args:
        what: is compared.
        old: OLD's tensors by name.
        new: NEW's.
        more_allowed: NEW may have further ones.
    """
    result = Comparison(what, "tensors", len(old))
    if not old:
        result.differs("OLD has no tensors")
    digests = [{name: _tensor_digest(tensor) for name, tensor in side.items()} for side in (old, new)]
    lost, gained = _beyond(*digests), _beyond(*reversed(digests))
    for name in lost:
        twin = _twin(name, old[name], {other: new[other] for other in gained})
        if twin is None:
            result.differs(f"{name} {old[name].shape} of OLD is not in NEW")
            continue
        gained.remove(twin)
        other = "" if _own_name(twin) == _own_name(name) else f" from NEW's {twin}"
        result.differs(f"{name} {old[name].shape} differs{other}", _largest_difference(old[name], new[twin]))
    if gained and more_allowed:
        result.notes.append(f"only in NEW, not compared: {len(gained)} tensors")
    for name in () if more_allowed else gained:
        result.differs(f"{name} {new[name].shape} of NEW is not in OLD")
    return result


def _tensor_digest(tensor: np.ndarray) -> str:
    return hashlib.sha256(f"{tensor.dtype}{tensor.shape}".encode() + tensor.tobytes()).hexdigest()


def _beyond(digests: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """The names that are left when every digest of `others` is taken away once."""
    left, names = Counter(others.values()), []
    for name, digest in digests.items():
        if left[digest]:
            left[digest] -= 1
        else:
            names.append(name)
    return names


def _twin(name: str, tensor: np.ndarray, others: Mapping[str, np.ndarray]) -> str | None:
    """The tensor that most likely is the same one: of its shape, and of its name if there is one."""
    fitting = [other for other, value in others.items() if value.shape == tensor.shape]
    return next((other for other in fitting if _own_name(other) == _own_name(name)), fitting[0] if fitting else None)


def _own_name(name: str) -> str:
    return name.rpartition(":")[2]


def _read_tensors(folder: Path) -> dict[str, np.ndarray]:
    """Every tensor of the safetensors files under a folder, by file and name."""
    tensors = {}
    for path in sorted(folder.rglob("*.safetensors")):
        with safe_open(str(path), framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 (it is no mapping)
                tensors[f"{path.relative_to(folder)}:{name}"] = file.get_tensor(name)
    return tensors


def compare_arrays(
    result: Comparison,
    old: Mapping[str, np.ndarray],
    new: Mapping[str, np.ndarray],
    about: str = "",
    needed: Sequence[str] = (),
) -> None:
    """Compare arrays of the same name by type, shape and bytes.

    Args:
        result: is added to.
        old: OLD's arrays.
        new: NEW's.
        about: stands before each sentence.
        needed: names that both sides must have.
    """
    result.require(needed, old, new, about)
    for name in result.common(old, new):
        result.count += old[name].size
        if _tensor_digest(old[name]) != _tensor_digest(new[name]):
            result.differs(f"{about}{name} differs", _largest_difference(old[name], new[name]))


def _largest_difference(old: np.ndarray, new: np.ndarray) -> float:
    """Infinite where the arrays cannot be subtracted."""
    if old.shape != new.shape or not {old.dtype.kind, new.dtype.kind} <= set("fiub"):
        return math.inf
    gap = np.abs(old.astype(np.float64) - new.astype(np.float64))
    return math.inf if np.isnan(gap).any() else float(gap.max(initial=0.0))


def compare_values(result: Comparison, old: Any, new: Any, about: str = "", needed: Sequence[str] = ()) -> None:
    """Compare nested JSON values leaf by leaf, but for times, settings and names of stages.

    Args:
        result: is added to.
        old: OLD's value.
        new: NEW's.
        about: stands before each sentence.
        needed: leaves, or objects, that both sides must have.
    """
    of_old, of_new = dict(_leaves(old)), dict(_leaves(new))
    result.require(needed, old, new, about)
    for name in result.common(of_old, of_new):
        result.count += 1
        before, after = of_old[name], of_new[name]
        if not _same(before, after):
            numbers = isinstance(before, int | float) and isinstance(after, int | float)
            result.differs(f"{about}{name}: {before} and {after}", abs(before - after) if numbers else math.inf)


def _same(old: Any, new: Any) -> bool:
    if isinstance(old, float) and isinstance(new, float):
        return struct.pack("d", old) == struct.pack("d", new)
    return bool(old == new)


def _leaves(value: Any, name: str = "") -> Iterator[tuple[str, Any]]:
    """Numbers and texts by dotted name."""
    if isinstance(value, Mapping):
        for key, item in value.items():
            full = f"{name}.{key}" if name else str(key)
            if not (key in _MAY_DIFFER or key.endswith("_seconds") or full in _MAY_DIFFER_AT):
                yield from _leaves(item, full)
    elif isinstance(value, list):
        yield f"{name}.length", len(value)
        for position, item in enumerate(value):
            yield from _leaves(item, f"{name}.{position}")
    else:
        yield name, value


def _compare_answers(what: str, old: Path, new: Path) -> Comparison:
    """The JSON lines of `homefold predict`, image by image."""
    result = Comparison(what)
    of_old, of_new = ({line["path"]: line for line in _read_lines(path)} for path in (old, new))
    if not of_old or of_old.keys() != of_new.keys():
        result.differs(f"OLD answers {len(of_old)} images and NEW {len(of_new)}, or they are others")
    for path in [path for path in of_old if path in of_new]:
        compare_values(result, of_old[path], of_new[path], f"{path}: ", _IN_EVERY_ANSWER)
    return result


def _compare_reports(what: str, old: Path, new: Path) -> Comparison:
    """The JSON object that a command printed."""
    result = Comparison(what)
    compare_values(result, json.loads(old.read_text()), json.loads(new.read_text()))
    if not result.count:
        result.differs("OLD and NEW have no value in common")
    return result


def _compare_archives(what: str, old: Path, new: Path) -> Comparison:
    result = Comparison(what)
    compare_arrays(result, _read_archive(old), _read_archive(new), needed=_IN_EVERY_ARCHIVE)
    return result


def _compare_runs(what: str, old: Path, new: Path) -> list[Comparison]:
    """Folders of the benchmark: records, artifacts, and what the stages trained, of which NEW may keep more."""
    records, artifacts = Comparison(f"{what}, records"), Comparison(f"{what}, artifacts")
    of_old, of_new = _read_entries(old), _read_entries(new)
    for side, alone in (("OLD", of_old.keys() - of_new.keys()), ("NEW", of_new.keys() - of_old.keys())):
        for name in sorted(alone):
            records.differs(f"the run {name} is in {side} alone")
    for name in [name for name in of_old if name in of_new]:
        before, after = of_old[name], of_new[name]
        compare_values(records, before, after, f"{name}: ", _IN_EVERY_RECORD)
        if before["status"] == "finished":
            arrays = (_artifact(old, before), _artifact(new, after))
            compare_arrays(artifacts, *arrays, f"{name}: ", _IN_EVERY_ARCHIVE)
    stages = (_read_tensors(side / "stages") for side in (old, new))
    return [records, artifacts, compare_tensors(f"{what}, stages", *stages, more_allowed=True)]


def _read_entries(folder: Path) -> dict[str, dict[str, Any]]:
    """The records of a benchmark by what they measured."""
    records = {}
    for record in _read_lines(folder / "records.jsonl"):
        words = [record.get(name) for name in _IDENTITY] + [
            record["facts"].get(name) for name in ("split", "variation")
        ]
        words.append((record["facts"].get("candidate") or {}).get("settings"))
        records[" ".join(str(word) for word in words if word not in (None, ""))] = record
    return records


def _artifact(folder: Path, record: Mapping[str, Any]) -> dict[str, np.ndarray]:
    return _read_archive(folder / "artifacts" / f"{record['run']}.npz")


def _read_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _read_archive(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file; none where there is no file."""
    if not path.exists():
        return {}
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}
