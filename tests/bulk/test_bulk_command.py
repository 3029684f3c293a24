"""`homefold predict … --out DIR/`, as a person gives it, on processes of this machine and on Ray."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from shards_scene import COUNT, Job

from homefold.bulk import BulkOptions, Question
from homefold.bulk.crew import Answered, Lost, Progressed, Ready
from homefold.bulk.local import LocalCrew
from homefold.bulk.plan import make_plan
from homefold.bulk.sources import find_source
from homefold.bulk.worker import Setup
from homefold.bulk.workers import hired
from homefold.cli import main
from homefold.errors import ConfigError
from homefold.model import Homefold


def said(capsys: pytest.CaptureFixture[str], *words: object) -> tuple[int, str]:
    """The exit code, and what stands on standard error."""
    code = main([str(word) for word in words])
    return code, capsys.readouterr().err


def test_a_slash_asks_for_a_folder_of_shards(job: Job, forms: dict[str, Path], capsys: pytest.CaptureFixture[str]):
    code, told = said(capsys, "predict", job.model, forms["folder"], "--out", f"{job.out}/", "--shard-size", 8)
    assert (code, told.splitlines()[-1]) == (0, f"{COUNT} answers in 3 files of {job.out}/.")
    assert len(job.rows()) == COUNT
    # The same command, now that the folder is there.
    code, told = said(capsys, "predict", job.model, forms["folder"], "--out", f"{job.out}/")
    assert (code, told.splitlines()[0]) == (0, "3 of 3 shards were done before.")
    code, told = said(capsys, "predict", job.model, forms["folder"], "--out", job.out)
    assert code == 1
    assert told.endswith(f"choose another --out (--out {job.out}/ with a slash answers in shards there).\n")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--on", "ray"], "--on goes with answers in a folder: add --out answers/ (with the slash)."),
        (["--workers", "2", "--out", "answers"], "--workers goes with answers in a folder"),
        (["s3://bucket/x"], "s3://bucket/x goes with answers in a folder"),
        (["--out", "x/", "--csv"], "x/ is a folder, in which answers are parquet files that stay; leave out --csv."),
        (["--out", "x/", "more"], "Answers in a folder are of one source of images; got 2."),
        (["--out", "x/", "--shard-size", "0"], "--shard-size must be at least 1; got 0."),
    ],
)
def test_flags_that_do_not_go_together_are_a_sentence(
    job: Job, capsys: pytest.CaptureFixture[str], words: list[str], sentence: str
):
    code, told = said(capsys, "predict", job.model, "photos", *words)
    assert code == 2
    assert sentence in told


def test_no_worker_is_an_error_before_anything_runs(model: Path, tmp_path: Path):
    settings = Homefold.load(model, device="cpu").config
    options = BulkOptions(model, "photos", tmp_path, Question(settings.look, settings.search), workers=0)
    with pytest.raises(ConfigError, match="--workers must be at least 1; got 0"), hired(options, 1, print):
        pass


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_killed_process_is_replaced_and_its_shard_comes_out_the_same(
    job: Job, forms: dict[str, Path], tmp_path: Path
):
    settings = Homefold.load(job.model, device="cpu").config
    setup = Setup(str(forms["folder"]), Path.cwd(), "cpu", 1, Question(settings.look, settings.search), {})
    (shard,) = make_plan(find_source(str(forms["folder"])), tmp_path, 100).shards(iter([0]))
    crew = LocalCrew([setup], job.model)
    try:
        assert isinstance(crew.hear(), Ready)
        crew.ask(0, ("answer", shard))
        assert isinstance(crew.hear(), Progressed)
        answered = crew.hear()
        ((_, process),) = crew._at_work.values()
        os.kill(process.pid, signal.SIGKILL)
        assert crew.hear() == Lost(0, "its process was ended by SIGKILL; perhaps memory ran out: take fewer --workers")
        assert isinstance(crew.hear(), Ready)
        crew.ask(0, ("answer", shard))
        assert [type(crew.hear()), crew.hear()] == [Progressed, answered]
        assert isinstance(answered, Answered)
    finally:
        crew.close()


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs pip install 'homefold[ray]'")
def test_ray_gives_the_same_files(job: Job, forms: dict[str, Path], tmp_path: Path):
    job(forms["folder"], shard_size=8)
    out = tmp_path / "of ray"
    words = ["predict", str(job.model), str(forms["folder"]), "--out", f"{out}/", "--on", "ray", "--workers", "1"]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    done = subprocess.run(
        [sys.executable, "-m", "homefold", *words, "--shard-size", "8", "--device", "cpu"],
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    assert {file.name: file.read_bytes() for file in out.glob("part-*")} == job.parts()
    kinds = [json.loads((folder / "_job" / "kinds.json").read_text()) for folder in (out, job.out)]
    assert kinds[0] == kinds[1]
