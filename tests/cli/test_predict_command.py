"""`homefold predict`: tables, JSON lines and CSV, bad images, pipes and files."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image
from scene import Ended, Homefold

from homefold.cli import predict
from homefold.cli.answers import TableWriter
from homefold.cli.given_settings import chosen_look_and_search
from homefold.cli.parsing import parse
from homefold.config import HomefoldConfig, LookConfig, SearchConfig, look_preset, search_preset
from homefold.data.decoding import pool as decoder_pool
from homefold.model import Homefold as Model
from homefold.stages.predictions import Prediction

KEYS = {
    "path",
    "label",
    "confidence",
    "probabilities",
    "similarity_before",
    "similarity_after",
    "iterations",
    "start",
    "off_manifold",
    "projected",
    "abstained",
}


@pytest.mark.slow
def test_json_lines_hold_what_the_library_predicts(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    night = shared_photos / "night"
    ended = homefold("predict", shared_model, night, "--device", "cpu", "--json")
    assert ended.code == 0
    paths = sorted(night.rglob("*.png"))
    expected = Model.load(shared_model, device="cpu").predict(paths)
    assert [line["path"] for line in ended.json_lines] == [str(path) for path in paths]
    for line, prediction in zip(ended.json_lines, expected, strict=True):
        assert set(line) == KEYS
        assert {key: line[key] for key in KEYS - {"abstained"}} == prediction.as_dict()
        assert line["abstained"] is False


@pytest.mark.slow
def test_csv_has_a_header_and_the_same_figures(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    images = shared_photos / "night" / "upright"
    rows = list(csv.DictReader(io.StringIO(homefold("predict", shared_model, images, "--csv").out)))
    lines = homefold("predict", shared_model, images, "--json").json_lines
    assert len(rows) == len(lines) == 10
    for row, line in zip(rows, lines, strict=True):
        assert (row["path"], row["label"], row["start"]) == (line["path"], line["label"], line["start"])
        assert float(row["confidence"]) == line["confidence"]
        assert float(row["probability.across"]) == line["probabilities"]["across"]
        assert (row["projected"], row["abstained"], row["error"]) == ("true", "false", "")


def test_the_table_has_a_row_an_image_with_columns_that_stand_below_each_other(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    images = sorted((shared_photos / "day" / "across").glob("*.png"))
    out = homefold("predict", shared_model, *images[:3]).out.splitlines()
    assert out[0].split() == ["file", "label", "confidence", "off-manifold"]
    assert [line.split()[0] for line in out[1:]] == [str(path) for path in images[:3]]
    assert len({len(line) for line in out}) == 1
    assert all(line.split()[1] == "across" for line in out[1:])


@pytest.mark.slow
def test_images_above_the_threshold_are_marked_as_abstained(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    lines = homefold("predict", shared_model, shared_photos, "--json").json_lines
    scores = sorted(line["off_manifold"] for line in lines)
    threshold = (scores[29] + scores[30]) / 2
    arguments = ["predict", shared_model, shared_photos, "--abstain-above", threshold]
    marked = homefold(*arguments, "--json").json_lines
    assert sum(line["abstained"] for line in marked) == 30
    assert all(line["abstained"] == (line["off_manifold"] > threshold) for line in marked)
    table = homefold(*arguments).out.splitlines()[1:]
    shown = ["abstain" in row for row in table]
    assert shown == [line["abstained"] for line in marked]
    assert any(f"abstain ({marked[i]['label']})" in row for i, row in enumerate(table))


def test_files_folders_and_patterns_are_taken_each_image_once(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    folder = shared_photos / "day" / "across"
    lines = homefold(
        "predict", shared_model, folder / "07.png", folder / "0[0-4].png", shared_photos / "dusk" / "across",
        folder / "00.png", "--json",
    ).json_lines  # fmt: skip
    named = [str(Path(line["path"]).relative_to(shared_photos)) for line in lines]
    assert named == [f"day/across/0{i}.png" for i in (0, 1, 2, 3, 4, 7)] + [f"dusk/across/0{i}.png" for i in range(10)]


@pytest.mark.slow
def test_answers_do_not_depend_on_the_chunks(
    homefold: Homefold, shared_model: Path, shared_photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = homefold("predict", shared_model, shared_photos, "--json").out
    monkeypatch.setattr(predict, "_IMAGES_AT_ONCE", 7)
    assert homefold("predict", shared_model, shared_photos, "--json").out == whole


@pytest.mark.slow
def test_without_projection_there_is_no_off_manifold_score(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    image = shared_photos / "day" / "across" / "00.png"
    (line,) = homefold("predict", shared_model, image, "--no-projection", "--json").json_lines
    expected = Model.load(shared_model, device="cpu").predict(image, projected=False)[0]
    assert line["probabilities"] == expected.probabilities
    assert (line["off_manifold"], line["iterations"], line["start"]) == (None, 0, "none")
    assert line["projected"] is False
    (row,) = csv.DictReader(io.StringIO(homefold("predict", shared_model, image, "--no-projection", "--csv").out))
    assert row["off_manifold"] == ""
    ended = homefold("predict", shared_model, image, "--no-projection", "--abstain-above", "1")
    assert ended.code == 1
    assert "--no-projection" in ended.error


@pytest.fixture
def with_bad_images(photos: Path) -> Path:
    (photos / "day" / "across" / "04.png").write_bytes(b"")
    (photos / "night" / "upright" / "02.png").write_bytes(b"no image at all")
    return photos


def test_bad_images_are_named_and_end_the_command(
    homefold: Homefold, shared_model: Path, with_bad_images: Path
) -> None:
    ended = homefold("predict", shared_model, with_bad_images, "--json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith("2 images cannot be used: ")
    assert str(with_bad_images / "day" / "across" / "04.png") + " is empty (0 bytes)" in ended.error
    assert ended.error.endswith("--skip-bad.")


def test_one_bad_image_keeps_its_own_advice(homefold: Homefold, shared_model: Path, with_bad_images: Path) -> None:
    bad = with_bad_images / "day" / "across" / "04.png"
    ended = homefold("predict", shared_model, bad)
    assert ended.error == f"{bad} is empty (0 bytes). Replace it, or leave it out with skip_bad."


@pytest.mark.slow
def test_before_a_bad_image_only_complete_answers_are_printed(
    homefold: Homefold, shared_model: Path, with_bad_images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "_IMAGES_AT_ONCE", 4)
    ended = homefold("predict", shared_model, with_bad_images, "--json")
    assert ended.code == 1
    assert [Path(line["path"]).name for line in ended.json_lines] == ["00.png", "01.png", "02.png", "03.png"]


@pytest.mark.slow
def test_skip_bad_answers_for_the_others_and_counts_the_bad(
    homefold: Homefold, shared_model: Path, with_bad_images: Path
) -> None:
    bad = [with_bad_images / "day" / "across" / "04.png", with_bad_images / "night" / "upright" / "02.png"]
    ended = homefold("predict", shared_model, with_bad_images, "--json", "--skip-bad")
    assert ended.code == 0
    lines = ended.json_lines
    failed = [line for line in lines if "error" in line]
    assert [line["path"] for line in failed] == [str(path) for path in bad]
    assert all(set(line) == {"path", "error"} for line in failed)
    assert failed[0]["error"] == "is empty (0 bytes)"
    assert len(lines) == 60
    assert lines == sorted(lines, key=lambda line: line["path"])
    assert f"left out: {bad[0]} is empty (0 bytes)" in ended.err
    assert "Left out 2 of 60 images that could not be read." in ended.err

    rows = list(
        csv.DictReader(io.StringIO(homefold("predict", shared_model, with_bad_images, "--csv", "--skip-bad").out))
    )
    assert [row["path"] for row in rows if row["error"]] == [str(path) for path in bad]
    assert [row["label"] for row in rows if row["error"]] == ["", ""]


@pytest.mark.slow
def test_decoder_processes_outlive_a_chunk_and_change_no_answer(
    homefold: Homefold, shared_model: Path, with_bad_images: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "_IMAGES_AT_ONCE", 24)
    pool = decoder_pool.DecoderPool()
    monkeypatch.setattr(decoder_pool, "_shared", pool)
    expected = homefold("predict", shared_model, with_bad_images, "--json", "--skip-bad")
    assert pool.process_ids == ()
    monkeypatch.setenv("HOMEFOLD_DECODERS", "processes")
    found = homefold("predict", shared_model, with_bad_images, "--json", "--skip-bad")
    first = pool.process_ids
    assert first
    assert homefold("predict", shared_model, with_bad_images, "--json", "--skip-bad").out == found.out
    assert pool.process_ids == first
    pool.close()
    assert (found.code, found.out) == (expected.code, expected.out)
    assert _without_times(found.err) == _without_times(expected.err)


def _without_times(text: str) -> str:
    """What was said, without how long the bar took."""
    return re.sub(r"\d:\d\d:\d\d", "", text)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [1, 7, 24, 512])
def test_working_ahead_changes_no_answer_and_no_order(
    homefold: Homefold,
    shared_model: Path,
    with_bad_images: Path,
    monkeypatch: pytest.MonkeyPatch,
    chunk: int,
) -> None:
    monkeypatch.setattr(predict, "_IMAGES_AT_ONCE", chunk)
    words = ["predict", shared_model, with_bad_images, "--json", "--device", "cpu", "--search.steps", "5"]
    one_by_one, stopped = homefold(*words, "--skip-bad"), homefold(*words)
    monkeypatch.setattr(predict, "_works_ahead", lambda model: True)
    ahead, stopped_ahead = homefold(*words, "--skip-bad"), homefold(*words)
    assert (ahead.code, ahead.out) == (one_by_one.code, one_by_one.out)
    assert _without_times(ahead.err) == _without_times(one_by_one.err)
    assert (stopped_ahead.code, stopped_ahead.out) == (1, stopped.out)
    assert stopped_ahead.error == stopped.error


def test_skip_bad_with_nothing_but_bad_images_is_no_crash(
    homefold: Homefold, shared_model: Path, with_bad_images: Path
) -> None:
    ended = homefold("predict", shared_model, with_bad_images / "day" / "across" / "04.png", "--json", "--skip-bad")
    assert ended.code == 0
    assert [set(line) for line in ended.json_lines] == [{"path", "error"}]


@pytest.mark.slow
def test_out_writes_a_file_and_nothing_on_standard_output(
    homefold: Homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    images = shared_photos / "night" / "across"
    shown = homefold("predict", shared_model, images, "--json").out
    out = tmp_path / "new" / "answers.jsonl"
    ended = homefold("predict", shared_model, images, "--json", "--out", out)
    assert (ended.code, ended.out) == (0, "")
    assert out.read_text() == shown


@pytest.mark.slow
def test_a_file_of_old_answers_survives_a_failure(
    homefold: Homefold, shared_model: Path, with_bad_images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(predict, "_IMAGES_AT_ONCE", 4)
    out = tmp_path / "answers"
    out.write_text("old")
    before = set(tmp_path.iterdir())
    assert homefold("predict", shared_model, with_bad_images, "--out", out, "--overwrite").code == 1
    assert out.read_text() == "old"
    assert set(tmp_path.iterdir()) == before


@pytest.mark.slow
def test_an_existing_file_is_replaced_only_when_asked(
    homefold: Homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    image, out = shared_photos / "day" / "across" / "00.png", tmp_path / "notes.txt"
    out.write_text("mine")
    words = ("predict", shared_model, image, "--json", "--out", out)
    ended = homefold(*words)
    assert ended.code == 1
    assert ended.error == f"{out} exists already; choose another --out, or add --overwrite to replace it."
    assert out.read_text() == "mine"
    assert homefold(*words, "--overwrite").code == 0
    assert out.read_text() == homefold("predict", shared_model, image, "--json").out


def test_no_input_is_replaced_even_when_asked(
    homefold: Homefold, model: Path, photos: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    image = photos / "day" / "across" / "00.png"
    before, description = image.read_bytes(), (model / "model.json").read_bytes()
    (tmp_path / "link.png").hardlink_to(image)
    monkeypatch.chdir(photos / "day")
    for out in (image, Path("across/00.png"), tmp_path / "link.png"):
        ended = homefold("predict", model, photos, "--out", out, "--overwrite")
        assert (ended.code, ended.error) == (1, f"{out} is one of the images to answer for; choose another --out.")
    for out in (model / "model.json", model / "answers.csv"):
        ended = homefold("predict", model, photos, "--out", out, "--overwrite")
        assert (ended.code, ended.error) == (1, f"{out} lies in the folder of the model; choose another --out.")
    assert image.read_bytes() == before
    assert (model / "model.json").read_bytes() == description
    assert not (model / "answers.csv").exists()


def test_out_must_be_a_plain_file(homefold: Homefold, shared_model: Path, shared_photos: Path, tmp_path: Path) -> None:
    folder, pipe = tmp_path / "folder", tmp_path / "pipe"
    folder.mkdir()
    os.mkfifo(pipe)
    for out in (folder, pipe):
        ended = homefold("predict", shared_model, shared_photos, "--out", out)
        assert ended.code == 1
        assert ended.error.startswith(f"{out} is not a plain file")
    assert folder.is_dir()
    assert pipe.is_fifo()


@pytest.mark.slow
def test_it_says_which_engine_ran(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    words = ("predict", shared_model, shared_photos, "--json", "--device", "cpu")
    assert "Projected by the batched engine on cpu." in homefold(*words).err
    assert "Projected by the reference engine" in homefold(*words, "--search.engine", "reference").err
    assert "engine" not in homefold(*words, "--no-projection").err


@pytest.mark.slow
def test_it_imports_nothing_large_beside_torch(shared_model: Path, shared_photos: Path, tmp_path: Path) -> None:
    image = shared_photos / "day" / "across" / "00.png"
    with Image.open(image) as opened:
        opened.convert("RGB").save(tmp_path / "image.jpg")
    words = ["predict", str(shared_model), str(image), str(tmp_path / "image.jpg"), "--json", "--device", "cpu"]
    code = (
        "import sys; from homefold.cli import main; from homefold.features.backbones import build_backbone; "
        f"build_backbone('resnet18'); print(main({words!r})); "
        "print([name for name in ('torchvision', 'torch._dynamo', 'sympy', 'triton', 'sklearn', 'scipy', 'matplotlib') "
        "if name in sys.modules])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    *answers, status, large = ended.stdout.splitlines()
    assert (len(answers), status, large) == (2, "0", "[]")


def test_json_and_csv_together_are_a_usage_error(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    ended = homefold("predict", shared_model, shared_photos, "--json", "--csv")
    assert (ended.code, ended.out) == (2, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere", "x.png"], "there is no model at nowhere"),
        (["{photos}", "{photos}"], "is not a homefold model"),
        (["{model}"], "No image was given"),
        (["{model}", "/dev/zero"], "/dev/zero is a device, not a file. Save what comes from it"),
        (["{model}", "{photos}", "/dev/null", "--json"], "/dev/null is a device, not a file."),
        (["{model}", "*.nothing"], "No image matches the pattern *.nothing."),
        (["{model}", "{photos}", "--device", "toaster"], "there is no device 'toaster'"),
    ],
)
def test_what_cannot_work_is_a_sentence(
    homefold: Homefold, shared_model: Path, shared_photos: Path, arguments: list[str], expected: str
) -> None:
    ended = homefold("predict", *(word.format(model=shared_model, photos=shared_photos) for word in arguments))
    assert (ended.code, ended.out) == (1, "")
    assert expected in ended.error


@pytest.mark.slow
def test_a_pipe_is_refused_at_once_and_left_out_on_request(
    homefold: Homefold, shared_model: Path, shared_photos: Path, tmp_path: Path
) -> None:
    pipe = tmp_path / "pipe.png"
    os.mkfifo(pipe)
    ended = homefold("predict", shared_model, pipe)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(f"{pipe} is a pipe, not a file.")
    ended = homefold("predict", shared_model, shared_photos / "day", pipe, "--skip-bad", "--json")
    assert ended.code == 0
    assert [line["path"] for line in ended.json_lines if "error" in line] == [str(pipe)]
    assert homefold("predict", shared_model, tmp_path).error.startswith(f"There are no images in the folder {tmp_path}")


@pytest.mark.slow
def test_standard_input_is_an_image_only_where_it_is_a_file(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    def predicted(source: int) -> Ended:
        """As a shell would start it with this file as its standard input."""
        own = os.dup(0)
        os.dup2(source, 0)
        os.close(source)
        try:
            return homefold("predict", shared_model, "/dev/stdin", "--json", "--device", "cpu")
        finally:
            os.dup2(own, 0)
            os.close(own)

    image = shared_photos / "day" / "across" / "00.png"
    assert predicted(os.open(image, os.O_RDONLY)).json["path"] == "/dev/stdin"
    readable, writable = os.pipe()
    os.close(writable)
    ended = predicted(readable)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith("/dev/stdin is a pipe, not a file.")


@pytest.mark.slow
def test_projection_flags_change_the_models_own_settings(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    image = shared_photos / "night" / "across" / "00.png"

    def line(*flags: str) -> dict[str, object]:
        (found,) = homefold("predict", shared_model, image, "--json", *flags).json_lines
        return found

    assert line()["iterations"] == 50
    assert line("--search.steps", "9")["iterations"] == 9
    assert line("--search.steps=8")["iterations"] == 8
    assert str(line("--projection-preset", "restarts")["start"]).startswith("random")
    assert line("--projection-preset", "restarts", "--search.steps", "4")["iterations"] == 4
    both = line("--search.no-encoder-start", "--search.random-starts", "1")
    assert (str(both["start"]).split()[0], both["iterations"]) == ("random", 50)


def test_a_projection_that_cannot_work_is_a_sentence(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    ended = homefold("predict", shared_model, shared_photos, "--search.no-encoder-start")
    assert (ended.code, ended.out) == (1, "")
    assert "start" in ended.error


@pytest.mark.parametrize("preset", ["default", "paper", "authors", "restarts"])
@pytest.mark.slow
def test_every_projection_preset_of_the_command_exists(preset: str) -> None:
    own = HomefoldConfig(look=LookConfig(views=4), search=SearchConfig(steps=1))
    assert (
        parse(predict.PredictOptions, "predict", ["m", "i", "--projection-preset", preset]).projection_preset == preset
    )
    assert chosen_look_and_search(own, preset, {}) == (look_preset(preset), search_preset(preset))


def test_flags_of_earlier_names_work_and_are_told_once(
    homefold: Homefold, shared_model: Path, shared_photos: Path
) -> None:
    image = shared_photos / "night" / "across" / "00.png"
    ended = homefold("predict", shared_model, image, "--json", "--projection.steps", "9", "--projection.no-styles")
    assert ended.json_lines[0]["iterations"] == 9
    assert ended.err.count("--projection.steps is --search.steps now") == 1
    assert "--projection.no-styles is --look.no-styles now" in ended.err


@pytest.mark.slow
def test_answers_go_to_standard_output_also_when_a_bar_is_drawn_on_a_terminal(
    homefold: Homefold, shared_model: Path, shared_photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes standard error for a terminal
    ended = homefold("predict", shared_model, shared_photos / "day", "--json")
    assert len(ended.json_lines) == 20
    assert "Predicting" in ended.err
    assert "label" not in ended.err


@pytest.mark.slow
def test_file_names_of_any_bytes_are_printed(homefold: Homefold, shared_model: Path, photos: Path) -> None:
    folder = photos / "odd [red]"
    folder.mkdir()
    source = photos / "day" / "across" / "00.png"
    strange = os.path.join(os.fsencode(folder), b"caf\xe9 [b].png")
    with open(strange, "wb") as file:
        file.write(source.read_bytes())
    ended = homefold("predict", shared_model, folder)
    assert ended.code == 0
    assert "odd [red]/caf\\udce9 [b].png" in ended.out
    (line,) = homefold("predict", shared_model, folder, "--json").json_lines
    assert os.fsencode(line["path"]) == strange
    out = photos / "answers.csv"
    assert homefold("predict", shared_model, folder, "--csv", "--out", out).code == 0
    assert b"caf\xe9 [b].png" in out.read_bytes()


class Terminal(io.StringIO):
    """A stream that says it is a terminal of 60 columns."""

    def isatty(self) -> bool:
        return True

    def fileno(self) -> int:
        return 1


def test_long_paths_lose_their_front_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "get_terminal_size", lambda descriptor: os.terminal_size((60, 20)))
    stream = Terminal()
    path = Path("/a/very/long/way/down/to/a/small/picture.png")
    writer = TableWriter(stream, [path], ["cat"], abstains=False)
    writer.answer(path, Prediction("cat", {"cat": 0.75}, 0.1, 0.2, 3, "encoder", 1.5), abstained=False)
    header, row = stream.getvalue().splitlines()
    assert row.split() == ["…own/to/a/small/picture.png", "cat", "75.0", "%", "1.50"]
    assert len(row) == len(header) == 60


@pytest.mark.slow
def test_a_reader_that_goes_away_ends_the_command_quietly(shared_model: Path, shared_photos: Path) -> None:
    images = shared_photos / "day" / "across"
    process = subprocess.Popen(
        [sys.executable, "-m", "homefold", "predict", str(shared_model), str(images), "--json"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Unbuffered, Python would have nothing left to complain about at its exit.
        env={key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"},
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    stderr = process.stderr.read()
    process.stderr.close()
    assert process.wait() == 141
    assert "error" not in stderr.lower()
    assert "Traceback" not in stderr


def test_json_of_the_command_is_plain_json_without_nan() -> None:
    from homefold.cli.output import json_line

    line = json_line({"a": float("inf"), "b": [float("nan"), 1], "c": (Path("x"),)})
    assert json.loads(line, parse_constant=lambda name: pytest.fail(name)) == {"a": None, "b": [None, 1], "c": ["x"]}


@pytest.mark.slow
def test_unsure_answers_are_abstained_from(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    plain = homefold("predict", shared_model, shared_photos, "--json").json_lines
    limit = sorted(row["confidence"] for row in plain)[len(plain) // 2]
    rows = homefold("predict", shared_model, shared_photos, "--json", "--abstain-below", limit).json_lines
    assert [row["abstained"] for row in rows] == [row["confidence"] < limit for row in plain]
    refused = homefold("predict", shared_model, shared_photos, "--abstain-below", "2")
    assert refused.code == 1
    assert "must be a number from 0 to 1" in refused.err


@pytest.mark.slow
def test_both_labels_are_told_where_they_differ(homefold: Homefold, shared_model: Path, shared_photos: Path) -> None:
    blind = ["--search.no-encoder-start", "--search.random-starts", "1", "--search.steps", "0"]
    arguments = ["predict", shared_model, shared_photos, *blind]
    rows = homefold(*arguments, "--compare", "--json").json_lines
    plain = homefold("predict", shared_model, shared_photos, "--no-projection", "--json").json_lines
    assert [row["label_without_projection"] for row in rows] == [row["label"] for row in plain]
    changed = sum(row["label"] != row["label_without_projection"] for row in rows)
    assert 0 < changed < len(rows)
    assert homefold(*arguments, "--compare").out.count("without projection:") == changed
    assert "without projection:" not in homefold(*arguments).out
    refused = homefold(*arguments, "--compare", "--no-projection")
    assert (refused.code, "has but one" in refused.err) == (1, True)
