"""A job answers every image once, as `predict` does, whatever becomes of workers, images and the job itself."""

from __future__ import annotations

import math
import os
import shutil
import sys
from pathlib import Path

import pytest
from shards_scene import COUNT, FORMS, Job, write_form

from homefold import Homefold
from homefold.bulk.crew import Event, Failed, Lost, Ready, Request
from homefold.errors import ConfigError, DataError, NotFiniteError

pytestmark = pytest.mark.slow


FIGURES = ("label", "confidence", "off_manifold", "similarity_before", "similarity_after", "iterations", "start")


def expected_rows(model: Path, source: Path) -> list[dict[str, object]]:
    """What the library says of the same images, in the order in which it finds them."""
    found = []
    for prediction in Homefold.load(model, device="cpu").predict(source):
        row: dict[str, object] = {name: getattr(prediction, name) for name in FIGURES}
        row |= {f"probability.{name}": value for name, value in prediction.probabilities.items()}
        found.append({"path": prediction.path, **row})
    return found


def without_rest(rows: list[dict[str, object]]) -> list[dict[str, object]]:
    kept = ("path", *FIGURES)
    return [{key: row[key] for key in row if key in kept or key.startswith("probability.")} for row in rows]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "tars"])
def test_answers_are_those_of_predict_to_the_bit(job: Job, forms: dict[str, Path], form: str):
    done = job(forms[form], shard_size=7)
    assert (done.images, done.unread, done.shards) == (COUNT, 0, 3)
    assert without_rest(job.rows()) == expected_rows(job.model, forms[form])
    assert all(row["projected"] and not row["abstained"] and row["error"] is None for row in job.rows())


def test_a_tar_is_a_shard_and_its_images_need_no_labels(job: Job, forms: dict[str, Path], encoded: list[bytes]):
    done = job(forms["tars"])
    assert (done.images, done.unread, done.shards) == (COUNT, 0, 2)
    rows = without_rest(job.rows())
    order = [*range(0, COUNT, 2), *range(1, COUNT, 2)]
    assert [row["path"] for row in rows] == [f"{forms['tars']}/{i % 2}.tar/{i:03d}.png" for i in order]
    expected = Homefold.load(job.model, device="cpu").predict([encoded[i] for i in order])
    assert [row["confidence"] for row in rows] == expected.confidences.tolist()


def test_neither_workers_nor_the_size_of_shards_change_a_row(job: Job, forms: dict[str, Path]):
    job(forms["bytes"], workers=1, shard_size=1000)
    rows = job.rows()
    for workers, size in ((3, 1), (2, 6)):
        shutil.rmtree(job.out)
        job(forms["bytes"], workers=workers, shard_size=size)
        assert job.rows() == rows


def test_what_is_done_is_never_done_again_and_comes_out_the_same(job: Job, forms: dict[str, Path]):
    job(forms["folder"], shard_size=6)
    before, times = job.parts(), {file: file.stat().st_ino for file in job.out.glob("part-*")}
    (job.out / "part-000002.parquet").unlink()
    assert job(forms["folder"]).images == COUNT
    assert job.parts() == before
    assert {file for file in times if file.stat().st_ino != times[file]} <= {job.out / "part-000002.parquet"}
    assert [request[1].number for _, request in job.crew.asked] == [2]
    assert "3 of 4 shards were done before." in job.said
    job.crew = None
    assert job(forms["folder"]).images == COUNT
    assert job.crew is None  # nobody is hired for nothing


def test_a_broken_image_is_a_row_with_an_error_and_spoils_no_other(job: Job, encoded: list[bytes], tmp_path: Path):
    source = write_form("csv", tmp_path / "data", encoded)
    (source.parent / "photos" / "003.png").write_bytes(encoded[3][:40])
    (source.parent / "photos" / "004.png").unlink()
    source.write_text(source.read_text() + "photos/000.png,dog\n", encoding="utf-8")
    done = job(source, shard_size=8)
    assert (done.images, done.unread) == (COUNT + 1, 3)
    rows = job.rows()
    assert [bool(row["error"]) for row in rows] == [i in (3, 4, COUNT) for i in range(COUNT + 1)]
    assert rows[COUNT]["error"] == f"line {COUNT + 2}: it has 2 cells, the header 1"
    assert rows[4]["error"] == "does not exist"
    assert {rows[3][name] for name in FIGURES} == {None}
    expected = Homefold.load(job.model, device="cpu").predict(encoded[:3])
    assert [row["confidence"] for row in rows[:3]] == expected.confidences.tolist()


def test_an_answer_that_is_not_finite_is_an_error_of_its_row_alone(
    job: Job, forms: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    from homefold.bulk import worker

    real = worker.answered

    def answered(model, images, question):
        if len(images) > COUNT - 2:
            raise NotFiniteError(5)
        return real(model, images, question)

    job(forms["folder"])
    rows = job.rows()
    shutil.rmtree(job.out)
    monkeypatch.setattr(worker, "answered", answered)
    assert job(forms["folder"]).unread == 2
    errors = [row["error"] for row in job.rows()]
    assert [i for i, error in enumerate(errors) if error] == [5, 6]
    assert [row for row in job.rows() if not row["error"]] == [row for i, row in enumerate(rows) if i not in (5, 6)]


def test_the_question_is_asked_of_every_image(job: Job, forms: dict[str, Path]):
    job.question = {"compare": True, "abstain_above": 0.0}
    job(forms["folder"])
    expected = Homefold.load(job.model, device="cpu").predict(forms["folder"], compare=True)
    assert [row["label_without_projection"] for row in job.rows()] == [
        answer.label_without_projection for answer in expected
    ]
    assert all(row["abstained"] for row in job.rows())
    shutil.rmtree(job.out)
    job.question = {"projected": False}
    job(forms["folder"])
    assert {(row["off_manifold"], row["projected"], row["start"]) for row in job.rows()} == {(None, False, "none")}
    assert not any(math.isnan(row["confidence"]) for row in job.rows())


def test_a_job_that_is_another_is_refused_and_loses_nothing(job: Job, forms: dict[str, Path], tmp_path: Path):
    job(forms["folder"], shard_size=9)
    before = job.parts()
    other = tmp_path / "other"
    changed = Homefold.load(job.model, device="cpu")
    changed.trained.reports["note"] = 1
    changed.save(other)
    with pytest.raises(ConfigError, match="holds answers of another model; choose another --out"):
        job(forms["folder"], model=other)
    with pytest.raises(ConfigError, match="holds answers for another source;"):
        job(forms["csv"])
    with pytest.raises(ConfigError, match="begun with shards of 9 images"):
        job(forms["folder"], shard_size=10)
    job.question = {"compare": True}
    with pytest.raises(ConfigError, match="holds answers with other settings;"):
        job(forms["folder"])
    assert job.parts() == before


@pytest.mark.parametrize("form", FORMS)
def test_a_source_that_changed_is_refused(job: Job, encoded: list[bytes], tmp_path: Path, form: str):
    source = write_form(form, tmp_path / "data", encoded)
    job(source)
    before = job.parts()
    changed = source if source.is_file() else next(path for path in sorted(source.rglob("*")) if path.is_file())
    with changed.open("ab") as file:
        file.write(b"photos/000.png\n")
    with pytest.raises(DataError, match=r"changed since the job in .* began|cannot be read as a parquet file"):
        job(source)
    assert job.parts() == before


def test_two_jobs_do_not_share_a_folder(job: Job, forms: dict[str, Path]):
    def second(worker: int, request: Request) -> None:
        with pytest.raises(ConfigError, match="Another job is writing answers to"):
            Job(job.model, job.out)(forms["folder"])

    job.mishap = second
    assert job(forms["folder"]).images == COUNT


@pytest.mark.parametrize("place", ["photos", "photos/inside", "model/answers", "taken", "file"])
def test_a_folder_with_other_things_is_left_alone(job: Job, encoded: list[bytes], tmp_path: Path, place: str):
    source = write_form("folder", tmp_path, encoded)
    shutil.copytree(job.model, tmp_path / "model")
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "thesis.txt").write_text("x")
    (tmp_path / "file").write_text("x")
    before = sorted(tmp_path.rglob("*"))
    job.model, job.out = tmp_path / "model", tmp_path / place
    with pytest.raises(ConfigError, match="choose"):
        job(source)
    assert sorted(tmp_path.rglob("*")) == before


def test_a_ray_that_is_missing_is_told_before_anything_is_listed(
    job: Job, forms: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    for name in ("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN"):
        monkeypatch.setenv(name, "x")
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'homefold\[ray\]'"):
        job(forms["folder"], on="ray")
    assert not job.out.exists()


def test_a_tar_that_vanished_costs_its_shard_and_no_other(job: Job, encoded: list[bytes], tmp_path: Path):
    source = write_form("tars", tmp_path / "data", encoded)
    aside = tmp_path / "aside.tar"

    def move(worker: int, request: Request) -> None:
        if (source / "0.tar").exists():
            shutil.move(source / "0.tar", aside)

    job.mishap = move
    with pytest.raises(DataError, match=r"One shard could not be answered: There is no file .*0\.tar any more\."):
        job(source)
    assert list(job.parts()) == ["part-000001.parquet"]
    job.mishap = lambda worker, request: None
    shutil.move(aside, source / "0.tar")
    assert job(source).images == COUNT


def test_images_of_a_disk_that_is_gone_are_not_called_broken(job: Job, encoded: list[bytes], tmp_path: Path):
    source = write_form("folder", tmp_path / "data", encoded * 4)

    def unmount(worker: int, request: Request) -> None:
        for file in source.rglob("*.png"):
            file.unlink()

    job.mishap = unmount
    with pytest.raises(DataError, match=r"Not one of 80 images .* is there; perhaps a disk is not mounted"):
        job(source)
    assert job.parts() == {}


def test_a_shard_whose_worker_is_lost_is_done_by_another(job: Job, forms: dict[str, Path]):
    job(forms["folder"], shard_size=4)
    expected = job.parts()
    shutil.rmtree(job.out)
    lost = []

    def lose(worker: int, request: Request) -> Event | None:
        what, shard = request
        if what == "answer" and shard.number in (0, 3) and lost.count(shard.number) < 3:
            lost.append(shard.number)
            job.crew.events.append(Lost(worker, "its process was ended by SIGKILL"))
            return Ready(worker, job.crew.facts)
        return None

    job.mishap = lose
    assert job(forms["folder"], shard_size=4).images == COUNT
    assert sorted(lost) == [0, 0, 0, 3, 3, 3]
    assert job.parts() == expected


def test_a_shard_that_fails_every_time_is_given_up_after_the_others(job: Job, forms: dict[str, Path]):
    def fail(worker: int, request: Request) -> Event | None:
        what, shard = request
        return Failed(worker, "it is odd.") if what == "answer" and shard.number == 1 else None

    job.mishap = fail
    with pytest.raises(DataError, match=r"^One shard could not be answered: it is odd\. All others are done and kept"):
        job(forms["folder"], shard_size=4)
    assert len(job.parts()) == 4
    assert sum(request[1].number == 1 for _, request in job.crew.asked) == 3


def test_a_job_stops_where_nothing_but_failures_is_heard(job: Job, forms: dict[str, Path]):
    job.mishap = lambda worker, request: Failed(worker, "s3://x cannot be reached")
    with pytest.raises(DataError, match=r"Nothing is answered any more: s3://x cannot be reached\. What is"):
        job(forms["folder"], shard_size=1)


def test_another_kind_of_worker_is_compared_and_told(job: Job, forms: dict[str, Path]):
    job(forms["folder"], shard_size=4)
    (job.out / "part-000001.parquet").unlink()
    facts = (job.out / "_job" / "kinds.json").read_text()
    (job.out / "_job" / "kinds.json").write_text(facts.replace('"threads": 1', '"threads": 4'))
    job.said.clear()
    job(forms["folder"])
    assert job.said[-1] == (
        "Some workers are of another kind than the first (threads 1 and 4). On 4 images their probabilities differ by "
        "at most 0.0e+00, and 0 labels do."
    )
    job.said.clear()
    (job.out / "part-000001.parquet").unlink()
    job(forms["folder"])
    assert job.said == ["4 of 5 shards were done before."]


def test_paths_are_those_of_the_folder_that_the_command_ran_in(
    job: Job, forms: dict[str, Path], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(forms["folder"].parent)
    job(os.fspath(forms["folder"].name))
    assert job.rows()[0]["path"] == "photos/a/000.png"
    assert job.rows()[0]["error"] is None
