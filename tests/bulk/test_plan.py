"""Shards have every image once and in order, whatever files they lie in; progress is told in numbers that add up."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from shards_scene import COUNT, Job

from homefold.bulk.pace import Pace
from homefold.bulk.plan import Piece, make_plan, read_plan
from homefold.bulk.sources import SourceFile, find_source
from homefold.errors import DataError
from homefold.store.files import write_json


@given(st.lists(st.integers(0, 30), max_size=6), st.integers(1, 40))
@pytest.mark.slow
def test_rows_of_files_are_cut_into_shards_without_gap_or_overlap(
    tmp_path_factory: pytest.TempPathFactory, rows: list[int], size: int
):
    folder = tmp_path_factory.getbasetemp()
    files = [SourceFile(str(i), "", count) for i, count in enumerate(rows)]
    total = sum(rows)
    write_json(folder / "files.json", [vars(file) for file in files])
    plan = read_plan(folder, {"digest": "", "images": total, "shard_size": size, "shards": -(-total // size)})
    if not total:
        return
    shards = list(plan.shards(iter(range(len(plan.sizes)))))
    found = [
        (piece.file.name, row) for shard in shards for piece in shard.pieces for row in range(piece.start, piece.stop)
    ]
    assert found == [(str(i), row) for i, count in enumerate(rows) for row in range(count)]
    lengths = [sum(piece.stop - piece.start for piece in shard.pieces) for shard in shards]
    assert lengths == list(plan.sizes) == [size] * (total // size) + [total % size] * (total % size > 0)


def test_a_list_of_images_is_kept_and_read_again(forms: dict[str, Path], tmp_path: Path):
    source = find_source(str(forms["folder"]))
    plan = make_plan(source, tmp_path, 6)
    known = {"digest": plan.digest, "images": COUNT, "shard_size": 6, "shards": 4}
    assert read_plan(tmp_path, known) == plan
    assert plan.sizes == (6, 6, 6, 2)
    names = [image.name for shard in plan.shards(iter([3, 0])) for image in shard.images]
    expected = [entry.name for entry in source.images()]
    assert names == [*expected[18:], *expected[:6]]
    assert plan.digest == source.digest()


def test_a_name_that_is_no_text_is_kept(tmp_path: Path):
    photos = tmp_path / "photos"
    photos.mkdir()
    try:
        Path(str(photos / "caf\udce9.png")).write_bytes(b"x")
    except (OSError, UnicodeEncodeError):
        pytest.skip("this file system takes no such name")
    plan = make_plan(find_source(str(photos)), tmp_path / "job", 5)
    (shard,) = plan.shards(iter([0]))
    assert Path(shard.images[0].name).read_bytes() == b"x"


def test_an_empty_source_is_a_sentence_and_leaves_nothing(job: Job, tmp_path: Path):
    (tmp_path / "none").mkdir()
    with pytest.raises(DataError, match="There are no images in"):
        job(tmp_path / "none")
    assert [path.name for path in tmp_path.iterdir()] == ["none"]


@pytest.mark.parametrize("name", ["photos.zip", "photos.tar.gz", "notes.txt"])
def test_what_cannot_be_read_in_parts_is_refused(tmp_path: Path, name: str):
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=r"unpack it|no form of images"):
        find_source(str(tmp_path / name))


def test_tars_named_by_a_range_are_shards_in_its_order(tmp_path: Path):
    for i in (8, 9, 10):
        (tmp_path / f"part-{i:02d}.tar").write_bytes(b"x")
    plan = make_plan(find_source(str(tmp_path / "part-{08..10}.tar")), tmp_path / "job", 5)
    pieces = [shard.pieces for shard in plan.shards(iter(range(3)))]
    assert pieces == [
        (Piece(SourceFile(str(tmp_path / f"part-{i:02d}.tar"), pieces[i - 8][0].file.stamp)),) for i in (8, 9, 10)
    ]
    (tmp_path / "part-09.tar").unlink()
    with pytest.raises(DataError, match=r"There is no file or folder .*part-09\.tar"):
        find_source(str(tmp_path / "part-{08..10}.tar"))


class Clock:
    """Tells the time that a test says it is."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


class Bar:
    """Adds up what it is told."""

    total, done = 0, 0

    @contextmanager
    def task(self, description: str, total: int):
        self.total = total
        yield self

    def advance(self, steps: int = 1, **facts: float | str) -> None:
        self.done += steps

    def message(self, text: str) -> None:
        raise AssertionError(text)


def test_rate_and_time_left_are_told_every_minute():
    clock, bar, said = Clock(), Bar(), list[str]()
    with Pace(bar, said.append, 10_000, "images", clock) as pace:
        clock.now = 30.0  # until the first answers
        pace.advance(512)
        for second in range(1, 71):
            clock.now = 30.0 + second
            pace.advance(20)
        pace.advance(-512)  # a worker is lost
    assert said == ["1,112 of 10,000 images, 37 images/s, 0:04:00 left"]
    assert bar.done == 70 * 20
    assert bar.total == 10_000


def test_tars_are_counted_where_nobody_knows_how_many_images_they_have():
    clock, bar, said = Clock(), Bar(), list[str]()
    with Pace(bar, said.append, 4, "tars", clock) as pace:
        pace.advance(300)
        clock.now = 100.0
        pace.advance(200, whole=True)
    assert bar.done == 1
    assert said == ["1 of 4 tars, 5 images/s, 0:05:00 left"]
