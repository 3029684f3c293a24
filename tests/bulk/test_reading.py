"""What a worker holds of a shard is bounded, however many images there are and however large they are."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homefold.bulk import reading
from homefold.bulk.places import Place
from homefold.bulk.plan import Plan, make_plan
from homefold.bulk.reading import shard_reader
from homefold.bulk.sources import find_source
from homefold.data.stored_images import ParquetFile

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def planned(source: str, folder: Path) -> Plan:
    return make_plan(find_source(source), folder / "job", 1000)


@pytest.mark.slow
@given(st.integers(1, 40), st.integers(1, 50), st.data(), st.sampled_from(["path", "image", "structure"]))
def test_rows_are_streamed_from_any_place_to_any_other(
    tmp_path_factory: pytest.TempPathFactory, count: int, group: int, data: st.DataObject, kind: str
):
    start = data.draw(st.integers(0, count - 1))
    stop = data.draw(st.integers(start + 1, count))
    values = [str(i) if kind == "path" else str(i).encode() for i in range(count)]
    column = [{"bytes": value, "path": None} for value in values] if kind == "structure" else values
    file = tmp_path_factory.getbasetemp() / "streamed.parquet"
    parquet.write_table(
        pyarrow.table({"path" if kind == "path" else "image": column}), file, row_group_size=min(group, count)
    )
    assert list(ParquetFile(file).stream(range(start, stop))) == values[start:stop]


@pytest.mark.slow
def test_a_row_group_is_not_held_whole(tmp_path: Path):
    images = [random.randbytes(1 << 14) for _ in range(4096)]
    parquet.write_table(pyarrow.table({"image": images}), tmp_path / "a.parquet")
    before = pyarrow.total_allocated_bytes()
    stream = ParquetFile(tmp_path / "a.parquet").stream(range(4096))
    held = [pyarrow.total_allocated_bytes() - before for _ in stream]
    assert len(held) == 4096
    assert max(held) < 48 << 20 < (4096 << 14)  # a page of 1,024 images, which its writer chose, and reading ahead


def test_a_chunk_ends_where_its_bytes_are_many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    images = [b"x" * size for size in (10, 10, 50, 10, 100, 1)]
    parquet.write_table(pyarrow.table({"image": images}), tmp_path / "a.parquet")
    source = str(tmp_path / "a.parquet")
    (shard,) = planned(source, tmp_path).shards(iter([0]))
    monkeypatch.setattr(reading, "_BYTES_AT_ONCE", 60)
    with shard_reader(source, tmp_path) as reader:
        assert [[len(entry.image.content) for entry in chunk] for chunk in reader.chunks(shard)] == [
            [10, 10, 50],
            [10, 100],
            [1],
        ]
        assert [len(chunk) for chunk in reader.chunks(shard, 2)] == [2, 2, 1, 1]


def test_of_images_that_lie_elsewhere_a_few_are_on_their_way(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "photos").mkdir()
    for i in range(60):
        (tmp_path / "photos" / f"{i:02d}.png").write_bytes(bytes([i]))
    source = f"file://{tmp_path}/photos"
    (shard,) = planned(source, tmp_path).shards(iter([0]))
    begun: list[str] = []
    content: Callable[[Place], bytes] = Place.content
    monkeypatch.setattr(Place, "content", lambda place: (begun.append(place.name), content(place))[1])
    with shard_reader(source, tmp_path) as reader:
        chunks = reader.chunks(shard, 10)
        assert [entry.image.content for entry in next(chunks)] == [bytes([i]) for i in range(10)]
        assert 10 <= len(begun) <= 10 + reading._FETCHED_AT_ONCE
        assert [entry.image.content for chunk in chunks for entry in chunk] == [bytes([i]) for i in range(10, 60)]
    assert sorted(begun) == [f"{i:02d}.png" for i in range(60)]
