"""Records: appended whole, read back, and never glued to what a crash left."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from homefold.errors import DataError
from homefold.evaluation.records import RunRecord, append_record, read_records
from homefold.runtime.provenance import code_commit

RECORD = RunRecord("digits", "street", "vae", 0.5, 10, 0, "leave-one-domain-out", "last", {}, "a CPU", {}, run="r0")


def test_a_record_comes_back_as_it_went(tmp_path: Path):
    path = tmp_path / "runs" / "records.jsonl"
    failed = replace(RECORD, accuracy=None, status="failed", error="it collapsed.", run="r1")
    append_record(path, RECORD)
    append_record(path, failed)
    assert read_records(path) == [RECORD, failed]


def test_a_record_written_before_there_were_benchmarks_still_reads(tmp_path: Path):
    old = {
        "dataset": "d", "target": "t", "method": "m", "accuracy": 0.1, "images": 1, "seed": 0, "protocol": "p",
        "selection": "s", "config": {}, "hardware": "h", "versions": {}, "facts": {},
    }  # fmt: skip
    (tmp_path / "records.jsonl").write_text(json.dumps(old) + "\n")
    (record,) = read_records(tmp_path / "records.jsonl")
    assert (record.accuracy, record.run, record.status) == (0.1, "", "finished")


def test_what_a_crash_cut_short_is_left_out_and_then_replaced(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    append_record(path, RECORD)
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:100])
    assert read_records(path) == [RECORD]
    append_record(path, replace(RECORD, run="r1"))
    assert [record.run for record in read_records(path)] == ["r0", "r1"]
    path.write_bytes(whole[:50])
    append_record(path, RECORD)
    assert path.read_bytes() == whole


def test_a_bad_line_in_the_middle_is_an_error(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    path.write_text("not json\n")
    append_record(path, RECORD)
    with pytest.raises(DataError, match="line 1 is not a run record"):
        read_records(path)


def test_many_writers_at_once_tear_nothing(tmp_path: Path):
    path = tmp_path / "records.jsonl"
    long = replace(RECORD, facts={"text": "x" * 20_000})

    def write(name: str) -> None:
        for i in range(10):
            append_record(path, replace(long, run=f"{name}{i}"))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(record.run for record in read_records(path)) == sorted(f"{n}{i}" for n in "abcd" for i in range(10))


def test_the_commit_is_a_hash_or_nothing():
    commit = code_commit().removesuffix(" with changes")
    assert commit == "" or (len(commit) == 40 and int(commit, 16) >= 0)
