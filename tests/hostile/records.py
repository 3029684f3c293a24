"""Records, plans, artifacts, trained stages, checkpoints and cached pixels that something damaged."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from report.made_up_runs import artifact_arrays, every_suite, record

from homefold.data import load_dataset
from homefold.evaluation.records import read_records
from homefold.store.stage_store import StageStore, stage_id
from hostile.campaign import ANSWER, EITHER, REFUSAL, Call, Case, Command, Scene
from hostile.damage import FILE_DAMAGE, ODD_JSON, ODD_JSON_TEXTS, PLACE_DAMAGE, dotted, leaves, put

Damage = Callable[[Path], object]
_OF_EACH = 6


def _report(runs: Path, form: str = "csv") -> Command:
    return Command(("report", runs, "--format", form, "--out", "r"), out=Path("r"))


def _bench(runs: Path) -> Command:
    # The folder stands in the place of the plan's own, after `--out`.
    words = ("bench", "digits-mini", "--out", runs, "--plan", "--preset", "quick", "--methods", "vae", "--seeds", "1")
    return Command(words, out=runs)


ROADS: dict[str, Callable[[Path], Command | Call]] = {
    "report": _report,
    "bench": _bench,
    "library": lambda runs: Call(lambda: read_records(runs / "records.jsonl"), errors=(OSError,)),
}


def cases() -> list[Case]:
    """The whole table."""
    parts = (_leaves, _facts, _lines, _record_files, _plans, _artifacts, _old_reports, _stages, _unfinished, _cached)
    return [case for part in parts for case in part()]


def _case(name: str, road: str, damage: Damage, expected: frozenset[str], act: Callable[[Path], Any]) -> Case:
    def arrange(scene: Scene) -> Command | Call:
        runs = scene.copy(scene.runs)
        damage(runs)
        return act(runs)

    return Case("records", name, road, arrange, expected)


def _some(i: int) -> list[tuple[str, Any]]:
    """A few odd values, others for each `i`."""
    odd = list(ODD_JSON.items())
    return [odd[(i + 5 * j) % len(odd)] for j in range(_OF_EACH)]


def _appended(*lines: dict[str, Any]) -> Damage:
    def damage(runs: Path) -> None:
        path = runs / "records.jsonl"
        path.write_text(path.read_text() + "".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    return damage


def _with_leaf(values: dict[str, Any], path: tuple[str | int, ...], odd: Any) -> dict[str, Any]:
    changed = json.loads(json.dumps(values))
    put(changed, path, odd)
    return changed


def _leaves() -> list[Case]:
    """Each value of a record replaced by odd ones."""
    whole = record(config={"projection": {"views": 1}}, facts={"stages": {"a": {"seconds": 1.0}}}, changes="")
    ways = [*leaves(whole), ("config",), ("config", "projection"), ("versions",), ("seconds",), ("facts",), ("facts", "stages")]
    return [
        _case(f"{dotted(way)}-{name}", road, _appended(_with_leaf(whole, way, odd)), EITHER, ROADS[road])
        for i, way in enumerate(ways)
        for j, (name, odd) in enumerate(_some(i))
        for road in [("report", "bench", "report", "library")[(i + j) % 4]]
    ] + [
        _case(f"no-{key}", road, _appended({k: v for k, v in whole.items() if k != key}), EITHER, ROADS[road])
        for key in whole
        for road in ("report", "library")
    ]


def _facts() -> list[Case]:
    """What a protocol records, in the tables and figures that are made of it."""
    found = []
    suites: dict[str, list[dict[str, Any]]] = {}
    for values in every_suite(1):
        suites.setdefault(values["suite"], []).append(values)
    for suite, rows in suites.items():
        for i, way in enumerate(leaves({"facts": rows[-1]["facts"]}) if rows[-1]["facts"] else ()):
            for name, odd in _some(i)[:4]:
                kept = [*rows[-4:-1], _with_leaf(rows[-1], way, odd)]
                damage = _appended(*kept)
                act: Callable[[Path], Any] = lambda runs: _report(runs, "md")  # noqa: E731
                found.append(_case(f"{suite}-{dotted(way)}-{name}", "report", damage, EITHER, act))
    return found


def _lines() -> list[Case]:
    """A line that is no record: first, between others, and last without an end, as a crash leaves it."""
    texts = {**ODD_JSON_TEXTS, "half-a-record": json.dumps(record()).encode()[:200], "bad-byte": b'{"a": "\xff"}'}

    def damage(runs: Path, text: bytes, where: str) -> None:
        path = runs / "records.jsonl"
        first, *rest = path.read_bytes().splitlines(keepends=True)
        pieces = {"first": [text, b"\n", first, *rest], "between": [first, text, b"\n", *rest], "last": [first, *rest, text]}
        path.write_bytes(b"".join(pieces[where]))

    return [
        _case(f"line-{where}-{name}", road, lambda runs, t=text, w=where: damage(runs, t, w), expected, ROADS[road])
        for name, text in texts.items()
        for where, road in (("first", "report"), ("between", "library"), ("last", "bench"), ("last", "report"))
        for expected in [ANSWER if name == "blank" and road == "report" else EITHER if where == "last" else REFUSAL]
    ]


def _record_files() -> list[Case]:
    found = []
    for name, damage in FILE_DAMAGE.items():
        for road, act in ROADS.items():
            expected = REFUSAL
            if name in ("gone", "dangling-link"):
                expected = ANSWER if road == "bench" else EITHER if road == "library" else REFUSAL
            if name in ("empty", "nothing", "one-byte", "half", "tenth", "last-byte-gone", "garbage-behind", "zeros", "loop"):
                expected = EITHER
            found.append(_case(f"file-{name}", road, lambda runs, d=damage: d(runs / "records.jsonl"), expected, act))
    several = {"the-same-twice": ("runs", "runs"), "one-gone": ("runs", "gone"), "file-and-folder": ("runs/records.jsonl", "runs")}
    for name, runs in several.items():
        words = ("report", *runs, "--format", "csv", "--out", "r")
        expected = REFUSAL if name == "one-gone" else ANSWER
        found.append(_case(f"several-{name}", "report", lambda r: None, expected, lambda r, w=words: Command(w, out=Path("r"))))
    return found


def _plans() -> list[Case]:
    row = {k: v for k, v in record().items() if k not in ("accuracy", "versions", "seconds", "status", "error")}
    whole = {"format": 1, "runs": [row, {**row, "run": "other", "seed": 7}]}

    def damage(runs: Path, text: bytes) -> Path:
        path = runs / "plan.json"
        path.write_bytes(text)
        return path

    texts = {**ODD_JSON_TEXTS, "runs-number": b'{"runs": 5}', "runs-text": b'{"runs": "many"}', "runs-object": b'{"runs": {"run": 1}}'}
    found = [
        _case(f"plan-{name}", "report", lambda runs, t=text: damage(runs, t), REFUSAL, _report)
        for name, text in texts.items()
    ]
    whole_text = json.dumps(whole).encode()
    found += [
        _case(f"plan-file-{name}", "report", lambda runs, d=change: d(damage(runs, whole_text)), expected, _report)
        for name, change in FILE_DAMAGE.items()
        for expected in [ANSWER if name in ("gone", "dangling-link") else REFUSAL]
    ]
    return found + [
        _case(f"plan-{dotted(way)}-{name}", "report", lambda runs, t=text: damage(runs, t), EITHER, _report)
        for i, way in enumerate(leaves(row))
        for name, odd in _some(i)[:3]
        for text in [json.dumps({**whole, "runs": [_with_leaf(row, way, odd)]}).encode()]
    ]


def _artifacts() -> list[Case]:
    """What a run kept for pictures; a picture that cannot be drawn is left out."""
    arrays = artifact_arrays("vae", "sketch", 0, rows=16)
    made = list(ODD_ARRAYS.items())

    def damage(runs: Path, changed: dict[str, np.ndarray]) -> Path:
        kept = record()
        _appended(kept)(runs)
        (runs / "artifacts").mkdir()
        path = runs / "artifacts" / f"{kept['run']}.npz"
        np.savez(path, **changed)
        return path

    def report(runs: Path) -> Command:
        return _report(runs, "md")

    found = [
        _case(f"artifact-{array}-{name}", "report", lambda runs, c=changed: damage(runs, c), ANSWER, report)
        for i, array in enumerate(arrays)
        for name, change in (made[i % len(made)], made[(i + 3) % len(made)])
        for changed in [{**arrays, array: change(arrays[array])}]
    ]
    found += [
        _case(f"artifact-file-{name}", "report", lambda runs, d=change: d(damage(runs, arrays)), ANSWER, report)
        for name, change in FILE_DAMAGE.items()
    ]
    return found + [
        _case(f"artifact-without-{array}", "report", lambda runs, c=kept: damage(runs, c), ANSWER, report)
        for array in arrays
        for kept in [{name: value for name, value in arrays.items() if name != array}]
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


def _old_reports() -> list[Case]:
    """What lies where the report goes; only files that a report wrote may go."""

    def damage(runs: Path, text: bytes) -> None:
        out = runs.parent / "r"
        (out / "tables").mkdir(parents=True)
        (out / "report.json").write_bytes(text)

    listing = {"up": ["../keep"], "long": ["tables/" + "a" * 5000], "deep": ["tables/../../keep"], "numbers": [1, None]}
    texts = {**ODD_JSON_TEXTS, **{f"files-{n}": json.dumps({"files": f}).encode() for n, f in listing.items()}}

    def keep(runs: Path, text: bytes) -> None:
        (runs.parent / "keep").write_text("mine")
        damage(runs, text)

    return [
        _case(f"old-report-{name}", "report", lambda runs, t=text: keep(runs, t), ANSWER, _report)
        for name, text in texts.items()
    ]


def _stages() -> list[Case]:
    """A damaged stage is trained again."""
    wanted = stage_id("features", source="a", seed=0)
    files = ("state.safetensors", "stage.json")

    def get(store: StageStore) -> object:
        return store.get(wanted, lambda checkpoint: {"weights": torch.ones(3), "note": "trained"}).state["weights"]

    def arrange(scene: Scene, file: str, damage: Damage) -> Call:
        root = scene.place / "stages"
        get(StageStore(root))
        damage(root / wanted.name / file)
        return Call(lambda: get(StageStore(root)), out=root, errors=(OSError,))

    texts = {f"text-{n}": (lambda p, t=text: p.write_bytes(t)) for n, text in ODD_JSON_TEXTS.items()}
    return [
        Case("records", f"stage-{file}-{name}", "library", lambda s, f=file, d=damage: arrange(s, f, d), expected)
        for file in files
        for name, damage in ({**FILE_DAMAGE, **texts} if file == "stage.json" else FILE_DAMAGE).items()
        for expected in [EITHER if name in PLACE_DAMAGE else ANSWER]
    ]


def _unfinished() -> list[Case]:
    """What a fit that was stopped left; the same command goes on, or starts anew, or says what is in the way."""

    def arrange(scene: Scene, damage: Damage) -> Command:
        folder = scene.copy(scene.unfinished)
        damage(folder)
        return Command(scene.same_fit, out=Path("model"))

    texts = {f"fit.json-text-{n}": (lambda f, t=text: (f / "fit.json").write_bytes(t)) for n, text in ODD_JSON_TEXTS.items()}
    damages: dict[str, Damage] = {
        f"{file}-{name}": lambda folder, f=file, d=damage: d(folder / f)
        for file in ("fit.json", "features.safetensors")
        for name, damage in FILE_DAMAGE.items()
    }
    made: dict[str, tuple[Damage, frozenset[str]]] = {
        "as-it-was": (lambda folder: None, ANSWER),
        "empty-folder": (_emptied, ANSWER),
        "killed-at-first-write": (_killed_at_first_write, ANSWER),
        "killed-at-half-a-write": (lambda folder: (_killed_at_first_write(folder), (folder / "fit.json").touch()), EITHER),
        "file-of-that-name": (lambda folder: (shutil.rmtree(folder), folder.write_text("mine")), REFUSAL),
        "photos-inside": (lambda folder: (_emptied(folder), (folder / "a.png").write_text("mine")), REFUSAL),
        "other-files-beside": (lambda folder: (folder / "notes.txt").write_text("mine"), EITHER),
    }
    whole = {**texts, **damages}
    return [
        Case("records", f"unfinished-{name}", "fit", lambda s, d=damage: arrange(s, d), EITHER)
        for name, damage in whole.items()
    ] + [
        Case("records", f"unfinished-{name}", "fit", lambda s, d=damage: arrange(s, d), expected)
        for name, (damage, expected) in made.items()
    ]


def _emptied(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()


def _killed_at_first_write(folder: Path) -> None:
    _emptied(folder)
    (folder / ".fit.json.999999999.00000000-00000000.tmp").write_text('{"se')


def _cached() -> list[Case]:
    """A damaged cache of decoded images is decoded again."""

    def arrange(scene: Scene, file: str, damage: Damage) -> Call:
        cache = scene.place / "cache"

        def load() -> object:
            return np.array(load_dataset(scene.photos, size=(8, 8)).images)

        with scene.cached_in(cache):
            before = load()
        (entry,) = (path for path in (cache / "images").iterdir() if path.is_dir())
        damage(entry / file)

        def again() -> None:
            with scene.cached_in(cache):
                assert np.array_equal(load(), before), "other pixels than the files hold"

        return Call(again, out=cache, resumes=True)

    texts = {f"text-{n}": (lambda p, t=text: p.write_bytes(t)) for n, text in ODD_JSON_TEXTS.items()}
    pixels = {
        "one-pixel": lambda path: _patched(path, -1),
        "many-pixels": lambda path: [_patched(path, -place) for place in range(1, 100)],
        "header": lambda path: _patched(path, 20),
    }
    return [
        Case("records", f"cache-{file}-{name}", "library", lambda s, f=file, d=damage: arrange(s, f, d), expected)
        for file, more in (("images.npy", pixels), ("index.json", texts))
        for name, damage in {**FILE_DAMAGE, **more}.items()
        for expected in [EITHER if name in PLACE_DAMAGE else ANSWER]
    ]


def _patched(path: Path, place: int) -> None:
    content = bytearray(path.read_bytes())
    content[place] ^= 0x55
    path.write_bytes(content)
