"""Every benchmark runs at tiny size and writes what a reader needs to repeat it; what it measures is never asserted."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.slow

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch):
    """Imports one by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))

    def load(name: str) -> ModuleType:
        # Their names are common words: none may stay behind for other tests to import.
        for known in ("measuring", "predict", name):
            monkeypatch.delitem(sys.modules, known, raising=False)
        return importlib.import_module(name)

    return load


def result(path: Path) -> dict:
    found = json.loads(path.read_text())
    for fact in ("hardware", "versions", "command", "commit", "rows"):
        assert fact in found
    return found


@pytest.mark.slow
def test_training_compares_ways_to_keep_images_and_a_data_loader(benchmark, tmp_path):
    benchmark("training").main(["--quick", "--device", "cpu", "--out", str(tmp_path / "r.json")])
    rows = result(tmp_path / "r.json")["rows"]
    assert [row["images_kept"] for row in rows] == ["on the device", "copied ahead", "0 workers"]
    assert all(row["images_per_second"] > 0 for row in rows)
    assert rows[0]["times_data_loader"] == pytest.approx(rows[0]["images_per_second"] / rows[2]["images_per_second"])


def test_stages_fit_the_vae_the_classifier_and_the_gan(benchmark, tmp_path):
    benchmark("stages").main(["--quick", "--device", "cpu", "--out", str(tmp_path / "r.json")])
    found = result(tmp_path / "r.json")
    assert [row["stage"].split(",")[0] for row in found["rows"]] == ["VAE", "classifier", "GAN"]
    assert found["vae_and_classifier_seconds"] == pytest.approx(sum(row["seconds"] for row in found["rows"][:2]))


@pytest.mark.slow
def test_decoding_grows_from_one_core_to_all(benchmark, tmp_path):
    benchmark("decoding").main(["--quick", "--device", "cpu", "--out", str(tmp_path / "r.json")])
    rows = result(tmp_path / "r.json")["rows"]
    assert [(row["decoders"], row["cores"]) for row in rows] == [
        ("threads", 1),
        ("threads", 2),
        ("processes", 1),
        ("processes", 2),
        ("threads", 2),
        ("as chosen", 2),
    ]
    assert all(row["images_per_second"] > 0 for row in rows)
    assert rows[0]["times_one_thread"] == 1.0


def test_the_made_up_model_of_predict_answers(benchmark, tmp_path):
    from homefold import Homefold

    module = benchmark("predict")
    module.make_model(tmp_path / "model", "small")
    files = module.write_jpegs(tmp_path / "files", 3)
    assert len(Homefold.load(tmp_path / "model", device="cpu").predict(files)) == 3


def test_serving_is_measured_beside_the_bare_model_and_soaked(benchmark, tmp_path):
    pytest.importorskip("fastapi")
    module = benchmark("serving")
    module.main(["--quick", "--device", "cpu", "--out", str(tmp_path / "r.json")])
    found = result(tmp_path / "r.json")
    ways = ["bare loop, 64 images a call", "bare call, 1 image at a time"]
    ways += ["server, 1 client", "server, 8 clients", "server, 64 clients"]
    assert [row["way"] for row in found["rows"]] == ways
    assert found["rows"][0]["times_bare_loop"] == found["rows"][1]["times_one_at_a_time"] == 1
    assert set(found["one_client"]) == {"bare_call_ms", "request_ms", "added_ms"}
    module.main(["--quick", "--device", "cpu", "--soak", "40", "--out", str(tmp_path / "s.json")])
    (row,) = result(tmp_path / "s.json")["rows"]
    assert row["answered"] + row["refused"] + row["hung up"] == 40
    assert (row["wrong"], row["stuck"], row["images_left_waiting"], row["bytes_left_held"]) == (0, 0, 0, 0)


def test_scaling_answers_its_questions_with_a_plot_each(benchmark, tmp_path):
    asked = ["--questions", "features", "batch", "starts"]
    benchmark("scaling").main(["--quick", "--device", "cpu", *asked, "--out", str(tmp_path)])
    rows = result(tmp_path / "scaling.json")["rows"]
    assert {row["question"] for row in rows} == {"number of features", "images of a batch", "number of random starts"}
    assert all(row["seconds"] > 0 and row["peak_memory_mb"] > 0 for row in rows)
    assert sorted(path.name for path in tmp_path.glob("*.svg")) == [
        "images_of_a_batch.svg",
        "number_of_features.svg",
        "number_of_random_starts.svg",
    ]


def test_styles_are_moved_in_every_way_there_is_beside_a_copy(benchmark, tmp_path):
    module = benchmark("styles")
    module.main(["--quick", "--device", "cpu", "--out", str(tmp_path / "r.json")])
    rows = result(tmp_path / "r.json")["rows"]
    assert [row["way"] for row in rows] == ["copy", "torch"] * 4
    assert [row["dtype"] for row in rows] == ["bfloat16"] * 4 + ["float32"] * 4
    assert [row["times_copy"] for row in rows[::2]] == [1.0] * 4


def test_an_export_is_timed_beside_torch(benchmark, tmp_path):
    pytest.importorskip("onnxruntime")
    benchmark("export").main(["--quick", "--out", str(tmp_path / "r.json")])
    (row,) = result(tmp_path / "r.json")["rows"]
    assert 0 < row["least"] <= row["times_torch"] <= row["most"]
    assert row["turns"] == 3
    assert row["probability_difference"] < 2e-4


def test_towers_are_extracted_beside_a_bare_loop_and_read_back(benchmark, tmp_path):
    pytest.importorskip("timm")
    benchmark("towers").main(["--quick", "--device", "cpu", "--out", str(tmp_path / "r.json")])
    (row,) = result(tmp_path / "r.json")["rows"]
    assert 0 < row["times_bare_loop"] < row["times_bare_loop_with_what_is_done_once"]
    assert row["images"] == 12


def test_the_table_of_towers_has_a_column_for_every_domain(benchmark, few_digits, tmp_path, capsys, monkeypatch):
    pytest.importorskip("timm")
    module = benchmark("foundation_table")
    monkeypatch.setattr(module, "load_dataset", lambda data, size: few_digits)
    words = [
        "made up",
        "--tower",
        "timm:vit_tiny_patch16_224",
        "--weights",
        "none",
        "--image-size",
        "16",
        "--device",
        "cpu",
    ]
    module.main([*words, "--out", str(tmp_path / "r.json")])
    (row,) = result(tmp_path / "r.json")["rows"]
    accuracies = [row[domain] for domain in few_digits.domain_names]
    assert row["mean"] == pytest.approx(sum(accuracies) / 4)
    header, _, line = capsys.readouterr().out.strip().splitlines()
    assert header.endswith("may have been seen in pretraining |")
    assert line.startswith("| timm:vit_tiny_patch16_224 | 16 |")
    assert line.endswith("| unknown |")


def test_shards_are_compared_with_one_worker_and_a_bare_loop(benchmark, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    module = benchmark("bulk")
    seconds = iter([1.0, 3.0, 2.0, 4.0, 2.0, 3.25, 5.0, 7.0])  # one image, then all of them, in each way
    asked = []

    def run(words):
        asked.append(words)
        return next(seconds), 1.0, 1.0

    monkeypatch.setattr(module, "run", run)
    monkeypatch.setattr(module, "make_model", lambda folder, preset: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    module.main(["--images", "11", "--workers", "2", "--out", str(tmp_path / "r.json")])
    assert asked[-1][-2:] == ["--on", "ray"]
    rows = result(tmp_path / "r.json")["rows"]
    assert [row["way"] for row in rows] == ["bare torchvision loop", "1 worker", "2 workers", "2 workers on Ray"]
    assert [row["images_per_second"] for row in rows] == [5.0, 5.0, 8.0, 5.0]
    assert [row["of_linear"] for row in rows] == [1.0, 1.0, 0.8, 0.5]
    assert [row["times_bare_loop"] for row in rows] == [1.0, 1.0, 1.6, 1.0]


def test_memory_of_a_worker_is_measured_in_every_form(benchmark, tmp_path, monkeypatch):
    for needed in ("pyarrow", "psutil"):
        pytest.importorskip(needed)
    module = benchmark("bulk_memory")
    sources = []
    monkeypatch.setattr(module, "peaks", lambda words: (sources.append(Path(words[5])), (1.0, 2.0))[1])
    monkeypatch.setattr(module, "make_model", lambda folder, preset: None)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    module.main(["--images", "3", "5", "--photographs", "--out", str(tmp_path / "r.json")])
    rows = result(tmp_path / "r.json")["rows"]
    assert len({row["form"] for row in rows}) == 7
    assert [row["images"] for row in rows] == [3] * 7 + [5] * 7
    assert {(row["command_mb"], row["worker_mb"]) for row in rows} == {(1.0, 2.0)}
    names = ["photos", "photos", "list.parquet", "bytes.parquet", "bytes.parquet", "photos.tar", "photos.tar"]
    assert [source.name for source in sources] == names * 2
