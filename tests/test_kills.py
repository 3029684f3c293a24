"""The tools of `make kills` see what they are there to see; the campaign itself takes a quarter of an hour."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from homefold.store.files import write_state

pytestmark = pytest.mark.slow

SCRIPTS = Path(__file__).parents[1] / "scripts"

if not hasattr(signal, "SIGKILL"):
    pytest.skip("there is no SIGKILL here", allow_module_level=True)

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(autouse=True)
def _killing_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(SCRIPTS))


@pytest.fixture
def run_watched(tmp_path: Path) -> Run:
    """Runs a line of Python in an empty folder whose file operations are watched."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(code: str, *watch: str) -> subprocess.CompletedProcess[str]:
        watched = f"from pathlib import Path; from killing.moments import watch; watch(*{watch!r}); {code}"
        environment = {**os.environ, "PYTHONPATH": str(SCRIPTS)}
        command = [sys.executable, "-c", watched]
        return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)

    return run


WRITE_AND_RENAME = "p = Path('.a.12.0123456789-abcdef0123.tmp'); p.write_text('x' * 500); p.replace('a')"
OPENED, RENAMED = "open .a.*.tmp", "rename .a.*.tmp → a"


def test_file_operations_are_written_down_without_hashes_and_process_numbers(run_watched: Run, tmp_path: Path) -> None:
    from killing.moments import read_recorded

    assert run_watched(WRITE_AND_RENAME, "record", str(tmp_path / "operations")).returncode == 0
    (opened, empty), (renamed, written) = read_recorded(tmp_path / "operations")
    assert (opened, renamed) == (OPENED, RENAMED)
    assert empty < written


@pytest.mark.parametrize(
    ("kind", "how", "left"),
    [
        (OPENED, "as it appears", {".a.12.0123456789-abcdef0123.tmp": 0}),
        (OPENED, "half written", {".a.12.0123456789-abcdef0123.tmp": 100}),
        (RENAMED, "before", {".a.12.0123456789-abcdef0123.tmp": 500}),
        (RENAMED, "after", {"a": 500}),
    ],
)
def test_a_process_dies_at_the_moment_it_is_told(
    run_watched: Run, tmp_path: Path, kind: str, how: str, left: dict[str, int]
) -> None:
    ended = run_watched(WRITE_AND_RENAME, "die", json.dumps({"kind": kind, "nth": 1, "how": how}))
    assert ended.returncode == -(signal.SIGXFSZ if how == "half written" else signal.SIGKILL)
    assert {path.name: path.stat().st_size for path in (tmp_path / "work").iterdir()} == left


def test_it_lives_on_to_the_occurrence_that_was_meant(run_watched: Run, tmp_path: Path) -> None:
    moment = json.dumps({"kind": "open b", "nth": 2, "how": "as it appears"})
    ended = run_watched("[Path('b').write_text(str(i)) for i in range(3)]", "die", moment)
    assert ended.returncode == -signal.SIGKILL
    assert (tmp_path / "work" / "b").read_text() == ""


def test_half_a_line_is_appended_to_a_file_of_lines(run_watched: Run, tmp_path: Path) -> None:
    moment = json.dumps({"kind": "open lines", "nth": 2, "how": "half written"})
    ended = run_watched("[Path('lines').open('a').write('whole\\n') for i in range(3)]", "die", moment)
    assert ended.returncode == -signal.SIGKILL
    whole, half = (tmp_path / "work" / "lines").read_text().split("\n")
    assert whole == "whole"
    assert half


def runs_folder(folder: Path, *, seconds: float, accuracy: float = 0.5, times: int = 1) -> Path:
    (folder / "stages").mkdir(parents=True)
    record = {"run": "abc", "accuracy": accuracy, "facts": {"stages": {"f": {"seconds": seconds}}}}
    (folder / "records.jsonl").write_text((json.dumps(record) + "\n") * times)
    (folder / ".plan.json.lock").touch()
    (folder / "stages" / "stage.json").write_text(json.dumps({"seconds": seconds, "kind": "features"}))
    write_state(folder / "stages" / "source.safetensors", {"features": torch.arange(3), "seconds": seconds})
    return folder


def test_folders_that_differ_in_times_alone_are_the_same(tmp_path: Path) -> None:
    from killing.compare import differences, snapshot

    one, two = runs_folder(tmp_path / "1", seconds=1.5), runs_folder(tmp_path / "2", seconds=22.75)
    assert differences(snapshot(one, exact=False), snapshot(two, exact=False)) == []
    assert differences(snapshot(one, exact=True), snapshot(two, exact=True)) == [
        "records.jsonl differs",
        "stages/source.safetensors differs",
        "stages/stage.json differs",
    ]


def test_what_differs_is_named(tmp_path: Path) -> None:
    from killing.compare import differences, repeated_runs, snapshot

    one = snapshot(runs_folder(tmp_path / "1", seconds=1.0), exact=False)
    other = runs_folder(tmp_path / "2", seconds=1.0, accuracy=0.6, times=2)
    (other / "stages" / "stage.json").rename(other / "stages" / ".stage.json.tmp")
    assert differences(one, snapshot(other, exact=False)) == [
        "stages/stage.json is missing",
        "stages/.stage.json.tmp should not be there",
        "records.jsonl differs",
    ]
    assert repeated_runs(other) == ["there are 2 records of 1 runs"]
    assert differences(one, snapshot(tmp_path / "nowhere", exact=False)) == ["there is no result"]
