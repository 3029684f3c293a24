"""Records, plans, artifacts, trained stages, checkpoints and cached pixels that something damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from homefold.data import load_dataset
from homefold.evaluation.records import read_records
from homefold.store.stage_store import StageStore, stage_id
from hostile.campaign import ANSWER, EITHER, REFUSAL, Call, Case, Command, Scene
from hostile.damage import (
    CONTENT_DAMAGE,
    FILE_DAMAGE,
    ODD_JSON,
    ODD_TEXTS,
    PLACE_DAMAGE,
    TEXT_DAMAGE,
    Damage,
    Way,
    dotted,
    leaves,
    put,
    rewritten,
    some,
)
from report.made_up_runs import artifact_arrays, every_suite, record

ROADS: dict[str, Callable[[Path], Command | Call]] = {
    "report": lambda runs: Command(("report", runs, "--format", "csv", "--out", "r"), out=Path("r")),
    "report-md": lambda runs: Command(("report", runs, "--format", "md", "--out", "r"), out=Path("r")),
    "bench": lambda runs: Command(
        ("bench", "digits-mini", "--out", runs, "--plan", "--preset", "quick", "--methods", "vae", "--seeds", "1")
    ),
    "library": lambda runs: Call(lambda: read_records(runs / "records.jsonl"), errors=(OSError,)),
}


def cases() -> list[Case]:
    """The whole table."""
    parts = (_leaves, _facts, _lines, _files, _plans, _artifacts, _old_reports, _stages, _unfinished, _cached)
    return list(chain.from_iterable(part() for part in parts))


def _case(name: str, road: str, damage: Damage, expected: frozenset[str]) -> Case:
    def arrange(scene: Scene) -> Command | Call:
        runs = scene.copy(scene.runs)
        damage(runs)
        return ROADS[road](runs)

    return Case("records", name, road, arrange, expected)


def _appended(*rows: dict[str, Any]) -> Damage:
    lines = "".join(json.dumps(row) + "\n" for row in rows).encode()
    return lambda runs: rewritten(lambda content: content + lines)(runs / "records.jsonl")


def _with_leaf(values: dict[str, Any], way: Way, odd: Any) -> dict[str, Any]:
    changed: dict[str, Any] = json.loads(json.dumps(values))
    put(changed, way, odd)
    return changed


def _leaves() -> list[Case]:
    """Each value of a record replaced by odd ones, and each left out."""
    whole = record(config={"look": {"views": 1}}, facts={"stages": {"a": {"seconds": 1.0}}}, changes="")
    parts: list[Way] = [
        ("config",),
        ("config", "look"),
        ("versions",),
        ("seconds",),
        ("facts",),
        ("facts", "stages"),
    ]
    roads = ("report", "bench", "report", "library")
    odd_leaves = [
        _case(f"{dotted(way)}-{name}", roads[(i + j) % 4], _appended(_with_leaf(whole, way, odd)), EITHER)
        for i, way in enumerate([*leaves(whole), *parts])
        for j, (name, odd) in enumerate(some(ODD_JSON, i, 4))
    ]
    needed = ("dataset", "target", "method")
    return odd_leaves + [
        _case(f"no-{key}", "report", _appended({k: v for k, v in whole.items() if k != key}), expected)
        for key in whole
        for expected in [REFUSAL if key in needed else ANSWER]
    ]


def _facts() -> list[Case]:
    """What a protocol records, in the tables and figures that are made of it."""
    suites: dict[str, list[dict[str, Any]]] = {}
    for values in every_suite(1):
        suites.setdefault(values["suite"], []).append(values)
    return [
        _case(
            f"{suite}-{dotted(way)}-{name}",
            "report-md",
            _appended(*rows[-4:-1], _with_leaf(rows[-1], way, odd)),
            EITHER,
        )
        for suite, rows in suites.items()
        if rows[-1]["facts"]
        for i, way in enumerate(leaves({"facts": rows[-1]["facts"]}))
        for name, odd in [("nan", ODD_JSON["nan"]), *some(ODD_JSON, i + 1, 3)]
    ]


def _lines() -> list[Case]:
    """A line that is no record: first, between others, and last without an end, as a crash leaves it."""
    texts = {**ODD_TEXTS, "half-a-record": json.dumps(record()).encode()[:200], "bad-byte": b'{"a": "\xff"}'}

    def damage(text: bytes, where: str, runs: Path) -> None:
        path = runs / "records.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        place = {"first": 0, "between": 1, "last": len(lines)}[where]
        lines.insert(place, text if where == "last" else text + b"\n")
        path.write_bytes(b"".join(lines))

    return [
        _case(f"line-{where}-{name}", road, partial(damage, text, where), expected)
        for name, text in texts.items()
        for where, road in (("first", "report"), ("between", "library"), ("last", "bench"), ("last", "report"))
        for expected in [EITHER if where == "last" or name == "blank" else REFUSAL]
    ]


def _files() -> list[Case]:
    may_be_whole = {*CONTENT_DAMAGE, "nothing", "loop", "gone", "dangling-link"} - {"garbage"}
    found = [
        _case(f"file-{name}", road, lambda runs, d=damage: d(runs / "records.jsonl"), expected)
        for name, damage in FILE_DAMAGE.items()
        for road in ("report", "bench", "library")
        for expected in [EITHER if name in may_be_whole else REFUSAL]
    ]
    several = {"the-same-twice": "runs runs", "one-gone": "runs gone", "file-and-folder": "runs/records.jsonl runs"}
    for name, words in several.items():
        command = Command(("report", *words.split(), "--format", "csv", "--out", "r"), out=Path("r"))
        arrange: Callable[[Scene], Command] = lambda s, c=command: (s.copy(s.runs), c)[1]  # noqa: E731
        found.append(Case("records", f"several-{name}", "report", arrange, REFUSAL if name == "one-gone" else ANSWER))
    return found


def _plans() -> list[Case]:
    row = {key: value for key, value in record().items() if key not in ("accuracy", "versions", "seconds", "status")}
    whole = json.dumps({"format": 1, "runs": [row, {**row, "run": "other", "seed": 7}]}).encode()

    def damaged(text: bytes, damage: Damage, runs: Path) -> None:
        (runs / "plan.json").write_bytes(text)
        damage(runs / "plan.json")

    runs_odd = {
        f"runs-{name}": rewritten(lambda c, t=text: t)
        for name, text in (("5", b'{"runs": 5}'), ("text", b'{"runs": "a"}'))
    }
    harmless = ("last-byte-gone", "gone", "dangling-link", "loop")
    files = [
        _case(f"plan-{name}", "report", partial(damaged, whole + b"\n", damage), expected)
        for name, damage in {**FILE_DAMAGE, **TEXT_DAMAGE, **runs_odd}.items()
        for expected in [ANSWER if name in harmless else REFUSAL]
    ]
    return files + [
        _case(f"plan-{dotted(way)}-{name}", "report", partial(damaged, text, lambda path: None), EITHER)
        for i, way in enumerate(leaves(row))
        for name, odd in some(ODD_JSON, i, 2)
        for text in [json.dumps({"format": 1, "runs": [_with_leaf(row, way, odd)]}).encode()]
    ]


ODD_ARRAYS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "empty": lambda array: array[:0],
    "scalar": lambda array: np.asarray(3),
    "text": lambda array: np.asarray(["a"] * len(array)),
    "nan": lambda array: np.full(array.shape, np.nan),
    "negative": lambda array: np.full(array.shape, -5),
    "huge": lambda array: np.full(array.shape, 2**40),
    "one-axis-more": lambda array: array[None],
    "shorter": lambda array: array[:3],
}


def _artifacts() -> list[Case]:
    """What a run kept for pictures; a picture that cannot be drawn is left out."""
    arrays, kept = artifact_arrays("vae", "sketch", 0, rows=16), record()

    def damaged(changed: dict[str, np.ndarray], damage: Damage, runs: Path) -> None:
        _appended(kept)(runs)
        path = runs / "artifacts" / f"{kept['run']}.npz"
        path.parent.mkdir()
        np.savez(path, **changed)
        damage(path)

    changes = {f"file-{name}": (arrays, damage) for name, damage in FILE_DAMAGE.items()}
    for i, (array, value) in enumerate(arrays.items()):
        changes[f"no-{array}"] = {name: other for name, other in arrays.items() if name != array}, lambda path: None
        for name, change in some(ODD_ARRAYS, i, 2):
            changes[f"{array}-{name}"] = {**arrays, array: change(value)}, lambda path: None
    return [
        _case(f"artifact-{name}", "report-md", partial(damaged, changed, damage), ANSWER)
        for name, (changed, damage) in changes.items()
    ]


def _old_reports() -> list[Case]:
    """What lies where the report goes; only files that a report wrote may go."""
    listed = {"up": ["../keep"], "deep": ["tables/../../keep"], "long": ["tables/" + "a" * 5000], "numbers": [1, None]}
    texts = ODD_TEXTS | {f"files-{name}": json.dumps({"files": names}).encode() for name, names in listed.items()}

    def damage(text: bytes, runs: Path) -> None:
        (runs.parent / "keep").write_text("mine")
        (runs.parent / "r" / "tables").mkdir(parents=True)
        (runs.parent / "r" / "report.json").write_bytes(text)

    return [_case(f"old-report-{name}", "report", partial(damage, text), EITHER) for name, text in texts.items()]


def _stages() -> list[Case]:
    """A damaged stage is trained again."""
    wanted = stage_id("features", source="a", seed=0)

    def get(root: Path) -> object:
        return StageStore(root).get(wanted, lambda checkpoint: {"weights": torch.ones(3), "note": "trained"})

    def arrange(file: str, damage: Damage, scene: Scene) -> Call:
        root = scene.place / "stages"
        get(root)
        damage(root / wanted.name / file)
        return Call(lambda: get(root), out=root, errors=(OSError,))

    return [
        Case("records", f"stage-{file}-{name}", "library", partial(arrange, file, damage), expected)
        for file, more in (("state.safetensors", {}), ("stage.json", TEXT_DAMAGE))
        for name, damage in (FILE_DAMAGE | more).items()
        for expected in [EITHER if name in PLACE_DAMAGE else ANSWER]
    ]


def _unfinished() -> list[Case]:
    """What a fit that was stopped left; the same command goes on, or starts anew, or says what is in the way."""

    def arrange(damage: Damage, scene: Scene) -> Command:
        damage(scene.copy(scene.unfinished))
        return Command(scene.same_fit, out=Path("model"))

    def emptied(folder: Path, *, write: str = "", text: str = "") -> None:
        shutil.rmtree(folder)
        folder.mkdir()
        if write:
            (folder / write).write_text(text)

    half_written = ".stage.json.999999999.00000000-00000000.tmp"
    made: dict[str, tuple[Damage, frozenset[str]]] = {
        "as-it-was": (lambda folder: None, ANSWER),
        "empty-folder": (emptied, ANSWER),
        "killed-at-first-write": (partial(emptied, write=half_written, text='{"se'), ANSWER),
        "file-of-that-name": (lambda folder: (shutil.rmtree(folder), folder.write_text("mine")), REFUSAL),
        "photo-inside": (partial(emptied, write="a.png", text="mine"), REFUSAL),
    }
    for name, damage in FILE_DAMAGE.items():
        made[f"checkpoint-{name}"] = (
            (lambda folder, d=damage: d(*folder.glob("features-*/checkpoint.safetensors"))),
            EITHER,
        )
    return [
        Case("records", f"unfinished-{name}", "fit", partial(arrange, damage), expected)
        for name, (damage, expected) in made.items()
    ]


def _cached() -> list[Case]:
    """A damaged cache of decoded images is decoded again: no other pixels than the files hold."""

    def load(scene: Scene) -> np.ndarray:
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("HOMEFOLD_CACHE", str(scene.place / "cache"))
            return np.array(load_dataset(scene.photos, size=(8, 8)).images)

    def arrange(file: str, damage: Damage, scene: Scene) -> Call:
        before = load(scene)
        (entry,) = (path for path in (scene.place / "cache" / "images").iterdir() if path.is_dir())
        damage(entry / file)
        return Call(lambda: np.testing.assert_array_equal(load(scene), before), out=scene.place / "cache")

    def flipped(*places: int) -> Damage:
        return rewritten(
            lambda content: bytes(b ^ 0x55 if i - len(content) in places else b for i, b in enumerate(content))
        )

    pixels = {"one-pixel": flipped(-1), "many-pixels": flipped(*range(-100, 0, 7))}
    return [
        Case("records", f"cache-{file}-{name}", "library", partial(arrange, file, damage), expected)
        for file, more in (("images.npy", pixels), ("index.json", TEXT_DAMAGE))
        for name, damage in (FILE_DAMAGE | more).items()
        for expected in [EITHER if name in PLACE_DAMAGE else ANSWER]
    ]
