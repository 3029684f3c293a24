"""The campaign of kills sees what it is there to see; itself it takes minutes: scripts/bulk-kills."""

from __future__ import annotations

from pathlib import Path

import pytest

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_rows_lost_rows_twice_other_bytes_and_other_files_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(SCRIPTS))
    from killing.cluster import Ground, digests

    def write(name: str, paths: list[str]) -> None:
        parquet.write_table(pyarrow.table({"path": paths}), tmp_path / name)

    write("part-0.parquet", ["a", "b"])
    write("part-1.parquet", ["c"])
    ground = Ground.__new__(Ground)
    ground.answers, ground.count, ground.expected = tmp_path, 3, digests(tmp_path)
    assert ground.faults() == []
    write("part-1.parquet", ["b"])
    assert ground.faults() == ["part-1.parquet has other bytes", "2 of 3 images have a row, 1 more than one"]
    write("part-1.parquet", ["c"])
    write("part-2.parquet", [])
    assert ground.faults() == ["part-2.parquet should not be there"]
    (tmp_path / "part-0.parquet").unlink()
    assert "part-0.parquet has other bytes" in ground.faults()
