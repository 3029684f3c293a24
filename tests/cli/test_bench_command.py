"""`homefold bench` and `homefold methods` as a person meets them."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from scene import Homefold

from homefold.cli.bench_board import BenchBoard
from homefold.evaluation.execution import Executor
from homefold.evaluation.records import read_records
from homefold.evaluation.suites import SUITES
from homefold.methods.registry import METHODS

QUICK = [
    "--preset", "quick", "--device", "cpu", "--seeds", "1", "--images-per-class", "6",
    "--set", "features.epochs=1", "features.feature_dim=16", "classifier.epochs=2",
]  # fmt: skip


def bench(out: Path, *more: str) -> list[str]:
    return ["bench", "digits-mini", *QUICK, "--out", str(out), *more]


@pytest.mark.slow
def test_plan_says_what_there_is_to_do_and_does_nothing(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold(*bench(tmp_path / "runs", "--plan"))
    assert ended.code == 0
    lines = {line.split()[0]: line.split(maxsplit=1)[1].strip() for line in ended.out.splitlines() if line.strip()}
    assert lines["Suite"] == "digits-mini on digits-mini"
    assert lines["Protocol"].startswith("leave-one-domain-out: Train on all domains but one")
    assert lines["Runs"] == "20: 0 done, 20 to do"
    assert lines["Trainings"].startswith("28 to do: 4 classifier (0 done), 8 features (0 done), 12 manifold (0 done),")
    assert "4 style (0 done)" in ended.out
    assert not (tmp_path / "runs").exists()
    planned = homefold(*bench(tmp_path / "runs", "--plan", "--json")).json
    assert (planned["runs"], planned["trainings_to_do"]) == (20, 28)


@pytest.mark.slow
def test_data_in_a_folder_whose_name_is_no_text_gets_records(homefold: Homefold, photos: Path, tmp_path: Path) -> None:
    odd = photos.rename(tmp_path / os.fsdecode(b"caf\xe9"))
    words = ["bench", "single-source", "--data", str(odd), *QUICK, "--methods", "deep-all", "--targets", "night"]
    assert homefold(*words, "--out", tmp_path / "runs").code == 0
    records = read_records(tmp_path / "runs" / "records.jsonl")
    assert {record.dataset for record in records} == {r"caf\udce9"}
    assert r"caf\udce9" in records[0].command
    assert homefold("report", tmp_path / "runs").code == 0


@pytest.mark.slow
def test_the_table_the_records_and_the_time_left(homefold: Homefold, tmp_path: Path) -> None:
    more = ["--methods", "deep-all", "without-projection", "--targets", "street", "scan"]
    ended = homefold(*bench(tmp_path / "runs", *more))
    assert ended.code == 0
    records = read_records(tmp_path / "runs" / "records.jsonl")
    shown = {(r.method, r.target): 100 * (r.accuracy or 0) for r in records}
    rows = [line.split() for line in ended.out.splitlines()]
    for method in ("deep-all", "without-projection"):
        scan, street = shown[method, "scan"], shown[method, "street"]
        assert ["digits-bn", method, f"{scan:.1f}", f"{street:.1f}", f"{(scan + street) / 2:.1f}"] in rows
    assert "leave-one-domain-out, selection source-validation" in " ".join(ended.out.split())
    assert {record.command for record in records} == {shlex.join(["homefold", *bench(tmp_path / "runs", *more)])}
    assert "[1/4] scan · deep-all · digits-bn · seed 0: " in ended.err
    assert "left)" in ended.err
    assert "[4/4]" in ended.err
    assert "(all done)" in ended.err
    again = homefold(*bench(tmp_path / "runs", *more))
    assert "4 done, 0 to do" in again.err
    assert "[1/" not in again.err
    assert again.out.split("runs,")[0] == ended.out.split("runs,")[0]


@pytest.mark.slow
def test_a_search_ends_with_what_each_rule_would_have_chosen(homefold: Homefold, tmp_path: Path) -> None:
    more = ["--methods", "without-projection", "--targets", "street", "--search", "2"]
    planned = homefold(*bench(tmp_path / "runs", *more, "--plan", "--json")).json
    first, drawn = planned["candidates"]["without-projection"]
    assert (first, planned["runs"]) == ("", 2)
    ended = homefold(*bench(tmp_path / "runs", *more))
    assert ended.code == 0
    assert "[2/2] street · without-projection · digits-bn · seed 0 · candidate 1: " in ended.err
    found = homefold(*bench(tmp_path / "runs", *more, "--json")).json
    assert [record["facts"]["candidate"]["settings"] for record in found["records"]] == [first, drawn]
    by_rule = {choice["rule"]: choice for choice in found["choices"]}
    assert list(by_rule) == ["source-validation", "oracle"]
    best = max(found["records"], key=lambda record: record["accuracy"])
    assert by_rule["oracle"]["accuracies"] == {"0": best["accuracy"]}
    rows = [line.split() for line in ended.out.splitlines()]
    shown = {rule: f"{100 * choice['accuracies']['0']:.1f}" for rule, choice in by_rule.items()}
    assert ["digits-bn", "without-projection", shown["source-validation"]] in rows
    assert any(row[2:7] == ["oracle", "†", shown["oracle"], "%", "2"] for row in rows)
    assert "on the target itself: an upper bound" in " ".join(ended.out.split())


@pytest.mark.slow
def test_a_failed_run_is_shown_as_failed_and_the_exit_code_says_so(homefold: Homefold, tmp_path: Path) -> None:
    """Untrained features leave the VAE nothing to learn; the others go on."""
    more = ["--methods", "vae", "without-projection", "--targets", "street", "--set", "manifold.kl_weight=1000"]
    ended = homefold(*bench(tmp_path / "runs", *more))
    assert ended.code == 1
    rows = [line.split() for line in ended.out.splitlines()]
    assert ["digits-bn", "vae", "failed"] in rows
    assert "The VAE collapsed" in ended.err
    vae, plain = read_records(tmp_path / "runs" / "records.jsonl")
    assert (vae.status, vae.accuracy, plain.status) == ("failed", None, "finished")
    result = homefold(*bench(tmp_path / "runs", *more, "--json")).json
    assert [record["status"] for record in result["records"]] == ["failed", "finished"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="there is no SIGKILL here")
def test_a_killed_bench_goes_on_without_losing_or_repeating_a_finished_run(homefold: Homefold, tmp_path: Path) -> None:
    out = tmp_path / "runs"
    arguments = bench(out, "--methods", "deep-all", "without-projection", "nearest", "--targets", "street", "scan")
    command = [sys.executable, "-m", "homefold", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, text=True
    ) as run:
        assert run.stderr is not None
        said = []
        for line in run.stderr:
            said.append(line)
            if line.startswith("[2/6]"):
                run.kill()
                break
        assert run.wait() == -signal.SIGKILL, said
    before = (out / "records.jsonl").read_bytes()
    finished = [json.loads(line)["run"] for line in before.splitlines() if line.endswith(b"}")]
    assert 2 <= len(finished) < 6
    ended = homefold(*arguments)
    assert ended.code == 0
    assert f"{len(finished)} done, {6 - len(finished)} to do" in ended.err
    after = (out / "records.jsonl").read_bytes()
    assert after.startswith(before[: before.rfind(b"\n") + 1])
    runs = [record.run for record in read_records(out / "records.jsonl")]
    assert len(runs) == len(set(runs)) == 6
    assert runs[: len(finished)] == finished
    assert sorted(path.stem for path in (out / "artifacts").glob("*.npz")) == sorted(runs)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("finished", "advice"),
    [(0, "Nothing was finished yet: the same command starts from the beginning."),
     (1, "Start the same command again to go on.")],
)  # fmt: skip
def test_a_stopped_bench_promises_to_go_on_where_there_is_something_to_go_on_with(
    homefold: Homefold, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, finished: int, advice: str
) -> None:
    original, left = Executor._do, [finished]

    def stop(*arguments: Any) -> Any:
        if not left[0]:
            raise KeyboardInterrupt
        left[0] -= 1
        return original(*arguments)

    monkeypatch.setattr(Executor, "_do", stop)
    ended = homefold(*bench(tmp_path / "runs", "--methods", "nearest", "--targets", "street", "scan"))
    assert ended.code == 130
    assert ended.err.endswith(f"\nStopped. {advice}\n")


def test_a_suite_that_does_not_exist_is_a_usage_error(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold("bench", "pcas", "--out", tmp_path / "runs")
    assert ended.code == 2
    assert "pacs" in ended.err


def test_a_short_flag_of_fit_is_pointed_to_what_does_the_same_here(homefold: Homefold, tmp_path: Path) -> None:
    ended = homefold("bench", "digits-mini", "--out", tmp_path / "runs", "--learning-rate", "0.1")
    assert ended.code == 2
    assert "Did you mean --features.learning-rate?" in ended.error
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_seeds_are_counted_from_the_first_one_that_was_asked_for(homefold: Homefold, tmp_path: Path) -> None:
    more = ("--first-seed", "3", "--methods", "without-projection", "--targets", "scan", "--json")
    assert [record["seed"] for record in homefold(*bench(tmp_path / "runs", *more)).json["records"]] == [3]


def test_the_command_knows_every_suite() -> None:
    from typing import get_args

    from homefold.cli.bench import SuiteName

    assert set(get_args(SuiteName)) == set(SUITES)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--methods", "vea"], "there is no method 'vea'"),
        (["--targets", "mars"], "there is no target 'mars' in digits-mini"),
        (["--data", "nowhere"], "There is no dataset and no folder 'nowhere'"),
        (["--set", "features.epoch=1"], "there is no setting 'features.epoch'"),
        (["--backbone", "resnet19"], "there is no backbone 'resnet19'"),
        (["--jobs", "0"], "jobs must be at least 1"),
        (["--selection", "last", "--candidates", "features.epochs=2"], "the selection rule last looks at nothing"),
        (
            ["--search", "3", "--candidates", "features.epochs=2"],
            "search draws the candidates, and candidates names them",
        ),
        (["--candidates", "features.epochs=few"], "features.epochs must be a whole number; got 'few'"),
    ],
)
def test_what_cannot_work_gets_a_sentence(homefold: Homefold, tmp_path: Path, more: list[str], words: str) -> None:
    ended = homefold(*bench(tmp_path / "runs", *more))
    assert ended.code == 1
    assert words in ended.error
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_folder_of_images(homefold: Homefold, shared_photos: Path, tmp_path: Path) -> None:
    more = ["--data", str(shared_photos), "--methods", "without-projection", "--targets", "night"]
    assert homefold(*bench(tmp_path / "runs", *more)).code == 0
    (record,) = read_records(tmp_path / "runs" / "records.jsonl")
    assert (record.target, record.images) == ("night", 12)
    assert record.facts["images_per_class"] == 6


def test_methods_are_listed(homefold: Homefold) -> None:
    ended = homefold("methods")
    assert ended.code == 0
    (row,) = [line.split() for line in ended.out.splitlines() if line.split()[:1] == ["vae"]]
    assert row[:5] == ["vae", "2021", "no", "no", "yes"]
    (row,) = [line.split() for line in ended.out.splitlines() if line.split()[:1] == ["tent"]]
    assert row[:5] == ["tent", "2021", "no", "yes", "no"]
    assert "ttt: on rotation); any other is named after a plus, as in t3a+vae." in " ".join(ended.out.split())
    listed = homefold("methods", "--json").json["methods"]
    assert [method["name"] for method in listed][:2] == ["deep-all", "without-projection"]


def test_one_method_is_described_with_its_settings(homefold: Homefold) -> None:
    shown = homefold("methods", "jigen:weight=0.3")
    assert shown.code == 0
    assert "L = CE(W f(x̃), y) + α CE(V f(x̃), p)" in shown.out
    row = next(line.split() for line in shown.out.splitlines() if line.split()[:1] == ["weight"])
    assert row == ["weight", "0.3", "0.7", "0.1", "to", "1"]
    found = homefold("methods", "tent+vae", "--json").json
    assert found["name"] == "tent+vae"
    assert found["settings"][0]["name"] == "learning_rate"
    changed = homefold("methods", "jigen:weight=0.3,features.epochs=9", "--json").json
    assert changed["title"] == "JiGen (features.epochs=9)"
    assert changed["settings"][0] == {"name": "weight", "default": 0.7, "search": "0.1 to 1", "value": 0.3}
    plain = homefold("methods", "vae").out
    assert "no settings of its own" in plain
    row = next(line.split() for line in plain.splitlines() if line.split()[:1] == ["features.learning_rate"])
    assert row[1:] == ["the", "preset's", "0.2", "to", "5", "times", "its", "value,", "logarithmic"]
    assert changed["common"][-1] == {
        "name": "features.batch_size",
        "search": "0.5 to 2 times its value, logarithmic",
    }
    assert homefold("methods", "linear-probe", "--json").json["common"] == []
    assert "Did you mean jigen?" in homefold("methods", "jign").error
    assert "one method at a time" in homefold("methods", "jigen", "rsc").error


def test_the_time_left_counts_each_methods_own_time() -> None:
    class FakeRun:
        def __init__(self, id: str, method_name: str) -> None:
            self.id, self.method_name, self.title = id, method_name, id

    class FakeRecord:
        status, accuracy, error = "finished", 0.5, ""

        def __init__(self, method: str, seconds: float) -> None:
            self.method, self.seconds = method, {"run": seconds}

    runs = [FakeRun("1", "slow"), FakeRun("2", "fast"), FakeRun("3", "slow"), FakeRun("4", "fast"), FakeRun("5", "new")]
    board = BenchBoard(runs)  # type: ignore[arg-type]
    assert board.seconds_left() == 0
    board.on_run(runs[0], FakeRecord("slow", 100.0))  # type: ignore[arg-type]
    board.on_run(runs[1], FakeRecord("fast", 2.0))  # type: ignore[arg-type]
    assert board.seconds_left() == 100 + 2 + 51
    elsewhere = BenchBoard(runs, None)  # type: ignore[arg-type]
    elsewhere._began -= 60
    elsewhere.on_run(runs[0], FakeRecord("slow", 100.0))  # type: ignore[arg-type]
    assert elsewhere.seconds_left() == pytest.approx(4 * 60, rel=0.1), (
        "four are left, and the first came after a minute"
    )


@pytest.mark.slow
def test_a_method_of_ones_own_comes_from_a_file(homefold: Homefold, tmp_path: Path) -> None:
    lines = [
        "from dataclasses import replace",
        "from homefold.methods import PaperMethod, find_method, register_method",
        "info = find_method('without-projection').info",
        "register_method(PaperMethod(replace(info, name='mine', summary='Does as I say.'), manifold=None))",
    ]
    (tmp_path / "mine.py").write_text("\n".join(lines))
    plugin = ("--plugin", str(tmp_path / "mine.py"))
    assert homefold(*bench(tmp_path / "runs", "--methods", "mine", "--plan")).code == 1
    try:
        ended = homefold("methods", *plugin)
        assert "Does as I say." in " ".join(ended.out.split())
        ended = homefold(*bench(tmp_path / "runs", "--methods", "mine", "--targets", "street", *plugin, "--json"))
        assert ended.code == 0, ended.err
        (record,) = json.loads(ended.out)["records"]
        assert (record["method"], record["status"]) == ("mine", "finished")
        assert "--plugin" in record["command"]
    finally:
        METHODS.remove("mine")
    ended = homefold(*bench(tmp_path / "runs", "--plan", "--plugin", str(tmp_path / "other.py")))
    assert ended.code == 1
    assert "there is no file" in ended.err
