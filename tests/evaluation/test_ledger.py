"""Several benchmarks in one folder: each run is done once, by whoever comes to it first."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from homefold.evaluation.records import Ledger, RunRecord, append_record, read_records
from homefold.store.locking import claimed

RECORD = RunRecord("digits", "street", "vae", 0.5, 10, 0, "leave-one-domain-out", "last", {}, "a CPU", {}, run="r0")
FAILED = replace(RECORD, accuracy=None, status="failed", error="it collapsed.")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "records.jsonl"


def never() -> RunRecord:
    raise AssertionError("the run was done again")


def test_a_run_is_done_and_recorded_once(path: Path) -> None:
    ledger = Ledger(path)
    assert ledger.once("r0", lambda: RECORD) == RECORD
    assert ledger.once("r0", never) == RECORD
    assert Ledger(path).once("r0", never) == RECORD
    assert read_records(path) == [RECORD]
    assert [file.name for file in path.parent.iterdir()] == ["records.jsonl"]


def test_a_failure_from_before_is_tried_again_and_one_of_a_process_beside_is_not(path: Path) -> None:
    append_record(path, FAILED)
    ledger, beside = Ledger(path), Ledger(path)
    again = replace(FAILED, error="it collapsed again.")
    assert beside.once("r0", lambda: again) == again
    assert ledger.once("r0", never) == again
    assert Ledger(path).once("r0", lambda: RECORD) == RECORD
    assert read_records(path) == [FAILED, again, RECORD]


def test_what_another_process_is_doing_is_waited_for_or_left_for_later(path: Path) -> None:
    begun, go_on = threading.Event(), threading.Event()

    def slowly() -> RunRecord:
        begun.set()
        assert go_on.wait(30)
        return RECORD

    first = threading.Thread(target=Ledger(path).once, args=("r0", slowly))
    first.start()
    assert begun.wait(30)
    beside = Ledger(path)
    assert beside.once("r0", never, wait=False) is None
    assert beside.once("r1", lambda: replace(RECORD, run="r1"), wait=False) is not None
    waiting: list[RunRecord | None] = []
    second = threading.Thread(target=lambda: waiting.append(beside.once("r0", never)))
    second.start()
    go_on.set()
    first.join(30)
    second.join(30)
    assert waiting == [RECORD]
    assert [record.run for record in read_records(path)] == ["r1", "r0"]


def test_a_run_that_ends_in_an_error_is_free_again(path: Path) -> None:
    def full() -> RunRecord:
        raise OSError(28, "No space left on device")

    ledger = Ledger(path)
    with pytest.raises(OSError, match="No space left"):
        ledger.once("r0", full)
    assert ledger.once("r0", lambda: RECORD, wait=False) == RECORD


def test_many_threads_never_hold_one_claim_together(tmp_path: Path) -> None:
    lock, holders, most = tmp_path / "runs" / ".r.lock", [0], [0]

    def hold() -> None:
        for _ in range(50):
            with claimed(lock, wait=True) as held:
                assert held
                holders[0] += 1
                most[0] = max(most[0], holders[0])
                holders[0] -= 1

    threads = [threading.Thread(target=hold) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1]
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.slow
def test_two_benchmarks_started_together_share_the_runs(tmp_path: Path) -> None:
    out = tmp_path / "runs"
    asked = [
        "bench", "digits-mini", "--preset", "quick", "--device", "cpu", "--seeds", "1", "--images-per-class", "6",
        "--methods", "without-projection", "nearest", "--targets", "street", "scan", "--out", str(out), "--json",
        "--set", "preprocessing.image_size=16", "features.epochs=1", "features.feature_dim=16", "classifier.epochs=2",
    ]  # fmt: skip
    command = [sys.executable, "-m", "homefold", *asked]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) for _ in "ab"]
    said = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    records = read_records(out / "records.jsonl")
    assert Counter(record.run for record in records) == dict.fromkeys({record.run for record in records}, 1)
    assert len(records) == 4
    assert {record.status for record in records} == {"finished"}
    assert [path.name for path in out.glob(".*.lock")] == [".plan.json.lock"]
    assert all(output.count(b'"status": "finished"') == 4 for output, _ in said)
