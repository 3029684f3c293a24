"""Records: appended whole, read back, and never glued to what a crash left."""

from __future__ import annotations

import gzip
import json
import lzma
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from homefold.errors import DataError, HomefoldError
from homefold.evaluation import load_records
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


@pytest.mark.parametrize(("ending", "pack"), [(".gz", gzip.compress), (".xz", lzma.compress)])
def test_compressed_records_are_read_as_they_are(tmp_path: Path, ending: str, pack: Callable[[bytes], bytes]):
    plain, packed = tmp_path / "r.jsonl", tmp_path / f"r.jsonl{ending}"
    append_record(plain, RECORD)
    append_record(plain, replace(RECORD, run="r1"))
    packed.write_bytes(pack(plain.read_bytes() + b'{"dataset": "cut sho'))
    assert read_records(packed) == read_records(plain)
    packed.write_bytes(packed.read_bytes()[:-20])
    with pytest.raises(DataError, match=f"r.jsonl{ending} cannot be unpacked .*; it was truncated or edited"):
        read_records(packed)
    packed.write_bytes(b"not packed\n")
    with pytest.raises(DataError, match=f"r.jsonl{ending} cannot be unpacked"):
        read_records(packed)


def test_records_become_a_frame_with_a_row_a_run_and_settings_by_dotted_name(tmp_path: Path):
    pytest.importorskip("pandas", reason="pandas is an extra")
    config = {"seed": 3, "features": {"epochs": 5, "milestones": [0.5], "augmentation": {"flip": True}}}
    done = replace(RECORD, config=config, seconds={"training": 2.5}, facts={"sources": ["a", "b"]}, seed=3)
    failed = replace(RECORD, accuracy=None, status="failed", run="r1")
    for record in (failed, done, replace(done, accuracy=None), replace(failed, accuracy=0.25, seconds={})):
        append_record(tmp_path / "records.jsonl", record)
    frame = load_records(tmp_path)
    assert list(frame["run"]) == ["r1", "r0"]
    assert list(frame["accuracy"]) == [0.25, 0.5]
    row = frame.set_index("run").loc["r0"]
    assert (row["features.epochs"], row["features.augmentation.flip"], row["seed"]) == (5, True, 3)
    assert (row["seconds.training"], row["features.milestones"], row["facts.sources"]) == (2.5, (0.5,), ("a", "b"))
    packed = tmp_path / "other.jsonl.xz"
    packed.write_bytes(lzma.compress((tmp_path / "records.jsonl").read_bytes()))
    assert load_records(packed).equals(frame)


def test_a_frame_of_nothing_gets_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(HomefoldError, match=r"load_records needs pandas; .*pip install 'homefold\[pandas\]'"):
        load_records(tmp_path)
    monkeypatch.setitem(sys.modules, "pandas", ModuleType("pandas"))
    with pytest.raises(DataError, match=r"holds no records.jsonl"):
        load_records(tmp_path)
    with pytest.raises(DataError, match=r"there is no file or folder .*missing"):
        load_records(tmp_path / "missing")


class TestRecords:
    @pytest.fixture
    def record(self):
        return RunRecord("d", "t", "m", 0.5, 10, 0, "p", "s", {}, "cpu", {"torch": "2"})

    def test_they_are_appended_and_read_back(self, record, tmp_path):
        path = tmp_path / "runs" / "records.jsonl"
        append_record(path, record)
        append_record(path, replace(record, seed=1))
        assert read_records(path) == [record, replace(record, seed=1)]

    def test_a_last_line_cut_short_by_a_crash_is_left_out(self, record, tmp_path):
        path = tmp_path / "records.jsonl"
        append_record(path, record)
        with path.open("a") as file:
            file.write('{"dataset": "d"')
        assert read_records(path) == [record]

    def test_another_broken_line_is_an_error_that_names_it(self, record, tmp_path):
        path = tmp_path / "records.jsonl"
        path.write_text("nonsense\n")
        append_record(path, record)
        with pytest.raises(DataError, match="line 1 is not a run record"):
            read_records(path)
