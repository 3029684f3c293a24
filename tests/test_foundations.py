"""Files, seeds, devices, tiles, records: what every stage stands on."""

from __future__ import annotations

import doctest
import importlib
import os
import pkgutil
import re
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save
from torch import nn

import homefold
from homefold.config import HomefoldConfig, config_from_dict, config_to_dict, preset_config
from homefold.data import DomainDataset
from homefold.errors import ConfigError, DataError, ModelFileError
from homefold.evaluation.records import RunRecord, append_record, read_records
from homefold.runtime.device import one_thread, resolve_device, resolve_precision
from homefold.runtime.seeding import derive_seed, generator, isolated_seed
from homefold.runtime.tiles import apply_in_tiles, fill_tile, steady_tile
from homefold.store.files import (
    _HOST,
    atomic_directory,
    plain_json,
    read_json,
    read_state,
    recover,
    write_atomically,
    write_json,
    write_state,
)

CPU = torch.device("cpu")


def anything(path):
    """Whatever stands there may be replaced."""


class TestFiles:
    def test_a_failed_write_leaves_the_old_content_and_nothing_else(self, tmp_path):
        path = tmp_path / "file"
        path.write_text("old")
        with pytest.raises(RuntimeError), write_atomically(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError
        assert path.read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_failed_folder_leaves_the_old_one(self, tmp_path):
        path = tmp_path / "folder"
        path.mkdir()
        (path / "a").write_text("old")
        with pytest.raises(RuntimeError), atomic_directory(path, anything) as temporary:
            (temporary / "b").write_text("half")
            raise RuntimeError
        assert [item.name for item in path.iterdir()] == ["a"]
        assert list(tmp_path.iterdir()) == [path]

    def test_a_folder_replaces_the_old_one_whole(self, tmp_path):
        path = tmp_path / "folder"
        for name in ("a", "b"):
            with atomic_directory(path, anything) as temporary:
                (temporary / name).write_text(name)
        assert [item.name for item in path.iterdir()] == ["b"]

    def test_what_may_not_be_replaced_stays_as_it_is(self, tmp_path):
        path, asked = tmp_path / "folder", []

        def never(found):
            asked.append(found)
            raise RuntimeError

        with pytest.raises(RuntimeError), atomic_directory(path, never):
            pytest.fail("asked before any work")
        assert asked == [path]

    def test_what_appeared_meanwhile_is_not_replaced(self, tmp_path):
        path = tmp_path / "folder"

        def absent(found):
            if found.exists():
                raise RuntimeError

        with pytest.raises(RuntimeError), atomic_directory(path, absent):
            path.mkdir()
            (path / "photo").write_text("mine")
        assert (path / "photo").read_text() == "mine"
        assert list(tmp_path.iterdir()) == [path]

    def test_a_link_stays_a_link(self, tmp_path):
        (tmp_path / "folder").mkdir()
        (tmp_path / "link").symlink_to(tmp_path / "folder")
        for name in ("a", "b"):
            with atomic_directory(tmp_path / "link", anything) as temporary:
                (temporary / name).write_text(name)
        assert (tmp_path / "link").is_symlink()
        assert [item.name for item in (tmp_path / "folder").iterdir()] == ["b"]
        assert len(list(tmp_path.iterdir())) == 2

    def test_what_a_killed_process_left_is_tidied_up(self, tmp_path):
        path = tmp_path / "model"
        gone = subprocess.Popen([sys.executable, "-c", ""])
        gone.wait()
        (tmp_path / f".model.{gone.pid}.{_HOST}-00ff.tmp").mkdir()
        (tmp_path / f".model.{gone.pid}.{_HOST}-00ff.old").mkdir()
        (tmp_path / f".model.{gone.pid}.{_HOST}-00ff.old" / "weights").write_text("good")
        running = tmp_path / f".model.{os.getpid()}.{_HOST}-00ff.tmp"
        running.mkdir()
        recover(path)
        assert (path / "weights").read_text() == "good"
        assert set(tmp_path.iterdir()) == {path, running}

    def test_ctrl_c_between_the_two_renames_brings_the_old_folder_back(self, tmp_path, monkeypatch):
        path = tmp_path / "folder"
        path.mkdir()
        (path / "a").write_text("old")
        replace_, calls = os.replace, []

        def interrupted(source, target):
            calls.append(source)
            if len(calls) == 2:
                raise KeyboardInterrupt
            replace_(source, target)

        monkeypatch.setattr(os, "replace", interrupted)
        with pytest.raises(KeyboardInterrupt), atomic_directory(path, anything) as temporary:
            (temporary / "b").write_text("new")
        assert (path / "a").read_text() == "old"
        assert list(tmp_path.iterdir()) == [path]

    @given(
        st.recursive(
            st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=8),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
            max_leaves=8,
        )
    )
    def test_states_come_back_as_they_were(self, value):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state"
            write_state(path, {"value": value, 3: torch.arange(4)})
            back = read_state(path)
        assert back["value"] == value
        assert back[3].tolist() == [0, 1, 2, 3]

    def test_an_object_that_cannot_be_kept_is_refused(self, tmp_path):
        with pytest.raises(TypeError, match=r"a state holds a set at state\.a"):
            write_state(tmp_path / "state", {"a": {1}})

    def test_broken_files_are_named(self, tmp_path):
        (tmp_path / "x.json").write_text("{")
        with pytest.raises(ModelFileError, match=r"x\.json is not valid JSON"):
            read_json(tmp_path / "x.json")
        with pytest.raises(ModelFileError, match=r"y\.json is missing"):
            read_json(tmp_path / "y.json")
        (tmp_path / "z").write_bytes(b"12345678901234567890")
        with pytest.raises(ModelFileError, match="z cannot be read"):
            read_state(tmp_path / "z")
        with pytest.raises(ModelFileError, match="w is missing"):
            read_state(tmp_path / "w")

    @pytest.mark.skipif(sys.platform == "win32", reason="there is no limit on the size of files")
    def test_a_write_that_finds_no_room_names_its_file(self, tmp_path):
        script = """
import resource, sys
import numpy as np, torch
from pathlib import Path
from homefold.evaluation import RunRecord, append_record
from homefold.evaluation.artifacts import write_artifact
from homefold.store.files import write_json, write_state, write_tensors

out, text = Path(sys.argv[1]), "x" * 50_000
record = RunRecord("d", "t", "m", 0.5, 1, 0, "p", "s", {}, "h", {}, facts={"note": text})
resource.setrlimit(resource.RLIMIT_FSIZE, (9_000, 9_000))
for name, write in {
    "json": lambda path: write_json(path, text),
    "state": lambda path: write_state(path, {"a": torch.zeros(9_000)}),
    "tensors": lambda path: write_tensors(path, {"a": torch.zeros(9_000)}),
    "record": lambda path: append_record(path, record),
    "artifact": lambda path: write_artifact(path, {"a": np.random.default_rng(0).random(9_000)}),
}.items():
    try:
        write(out / name)
    except OSError as error:
        print(error.filename)
"""
        command = [sys.executable, "-c", script, str(tmp_path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        names = ["json", "state", "tensors", "record", "artifact"]
        assert done.stdout.splitlines() == [str(tmp_path / name) for name in names]
        assert {path.name: path.stat().st_size for path in tmp_path.iterdir() if path.name != "tensors"} == {
            "record": 0
        }

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            (b"[" * 100_000, "nested too deeply"),
            (b"[" * 300 + b"]" * 300, "nested too deeply"),
            (b"9" * 5000, "is not valid JSON"),
            (b'{"a": {"b": 1, "b": 1}}', "the key 'b' twice"),
            (b"\xff", "is not valid JSON"),
            (b"\xef\xbb\xbf{}", "is not valid JSON"),
        ],
        ids=range(6),
    )
    def test_json_that_cannot_be_walked_through_is_told(self, tmp_path, text, words):
        (tmp_path / "x.json").write_bytes(text)
        with pytest.raises(ModelFileError, match=words):
            read_json(tmp_path / "x.json")

    @pytest.mark.parametrize("read", [read_json, read_state])
    def test_what_is_no_plain_file_is_not_waited_for(self, tmp_path, read):
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to("/dev/zero")
        (tmp_path / "folder").mkdir()
        for name in ("pipe", "link", "folder"):
            with pytest.raises(ModelFileError, match=f"{name} is not a plain file"):
                read(tmp_path / name)

    @pytest.mark.parametrize(
        "structure",
        [
            "",
            "{}",
            '{"__dict__": 3}',
            '{"__dict__": [1]}',
            '{"__dict__": [[[], 1]]}',
            '{"__tensor__": "b"}',
            '{"__tensor__": []}',
            "[" * 100_000,
            "9" * 5000,
        ],
        ids=range(9),
    )
    def test_a_state_of_another_structure_is_told(self, tmp_path, structure):
        (tmp_path / "x").write_bytes(save({"a": torch.zeros(2)}, {"structure": structure}))
        with pytest.raises(ModelFileError, match="x cannot be read"):
            read_state(tmp_path / "x")
        (tmp_path / "x").write_bytes(save({"a": torch.zeros(2)}))
        with pytest.raises(ModelFileError, match="x cannot be read"):
            read_state(tmp_path / "x")

    def test_json_has_no_nan(self, tmp_path):
        with pytest.raises(ValueError, match="JSON compliant"):
            write_json(tmp_path / "x.json", float("nan"))
        assert list(tmp_path.iterdir()) == []


class TestSeeds:
    def test_each_purpose_has_its_own_stream(self):
        seeds = {derive_seed(s, *names) for s in (0, 1) for names in (("a",), ("a", 1), ("b",), ("a", "1x"))}
        assert len(seeds) == 8
        assert derive_seed(0, "order", 3) == 5172884068272721061  # on every machine

    def test_generators_repeat(self):
        a, b = (torch.rand(3, generator=generator(1, "x")) for _ in range(2))
        assert torch.equal(a, b)

    def test_isolated_seeds_leave_the_global_stream_alone(self):
        torch.manual_seed(5)
        expected = torch.rand(2)
        torch.manual_seed(5)
        with isolated_seed(0, "x"):
            inside = torch.rand(2)
        assert torch.equal(torch.rand(2), expected)
        with isolated_seed(0, "x"):
            assert torch.equal(torch.rand(2), inside)


class TestDevice:
    def test_names(self):
        assert resolve_device("cpu") == CPU
        assert resolve_device(CPU) == CPU
        if not torch.cuda.is_available():
            assert resolve_device("auto").type in ("cpu", "mps")
            with pytest.raises(ConfigError, match="torch sees 0 CUDA devices"):
                resolve_device("cuda")

    @pytest.mark.parametrize("name", ["tpux", "", "meta", "xpu", "vulkan", "hpu", "cuda:-1", "cpu:", "\udcff", "None"])
    def test_what_torch_may_know_but_nothing_can_be_computed_on_is_no_device(self, name):
        with pytest.raises(
            ConfigError, match=rf"there is no device {re.escape(repr(name))} to compute on; choose auto"
        ):
            resolve_device(name)

    def test_a_device_of_torch_is_checked_like_a_name(self):
        with pytest.raises(ConfigError, match="there is no device 'meta'"):
            resolve_device(torch.device("meta"))
        with pytest.raises(ConfigError, match="there is no device 'None'"):
            resolve_device(None)

    @pytest.mark.parametrize("name", ["cuda:99", "cpu:1", "mps:1"])
    def test_a_number_beyond_the_last_device_is_refused(self, name):
        with pytest.raises(ConfigError, match=f"device {name} is not there: torch sees"):
            resolve_device(name)

    def test_precision(self):
        assert resolve_precision("auto", CPU) == torch.float32
        assert resolve_precision("bfloat16", CPU) == torch.bfloat16
        with pytest.raises(ConfigError, match="float16 training needs a GPU"):
            resolve_precision("float16", CPU)

    def test_one_thread_is_given_back(self):
        torch.set_num_threads(2)
        try:
            with one_thread(CPU):
                assert torch.get_num_threads() == 1
            assert torch.get_num_threads() == 2
        finally:
            torch.set_num_threads(1)


class TestTiles:
    @given(n=st.integers(0, 20), size=st.integers(1, 7))
    def test_tiles_change_nothing_but_the_order_of_work(self, n, size):
        seen = []

        def double(rows):
            seen.append(len(rows))
            return rows * 2

        rows = torch.arange(n, dtype=torch.float32)[:, None]
        assert apply_in_tiles(double, rows, size).tolist() == (rows * 2).tolist()
        assert n == 0 or set(seen) == {size}

    def test_filling_repeats_the_last_row(self):
        assert fill_tile(torch.tensor([[1.0], [2.0]]), 4).flatten().tolist() == [1, 2, 2, 2]

    def test_a_function_whose_rows_depend_on_their_place_is_computed_row_by_row(self):
        def steady(rows):
            return rows * 2

        def unsteady(rows):
            return rows + torch.arange(len(rows))[:, None] * 1e-7

        assert steady_tile(nn.Identity(), "a", steady, (3,), 8, CPU) == 8
        assert steady_tile(nn.Identity(), "a", unsteady, (3,), 8, CPU) == 1


class TestConfig:
    @pytest.mark.parametrize("name", ["default", "thorough", "small", "small-thorough", "paper"])
    def test_presets_survive_json(self, name):
        config = preset_config(name)
        assert config_from_dict(HomefoldConfig, plain_json(config_to_dict(config))) == config

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"seed": "x"}, "seed must be a whole number"),
            ({"colour": 1}, "has no setting colour"),
            ({"features": 3}, "must be an object of settings"),
            ({"classifier": {"kind": "deep"}}, "kind must be one of linear, hidden"),
            ({"features": {"milestones": 3}}, "milestones must be a list"),
        ],
    )
    def test_what_does_not_fit_is_named(self, change, words):
        with pytest.raises(ConfigError, match=words):
            config_from_dict(HomefoldConfig, change)


class TestDataset:
    def test_choosing_domains(self):
        images = np.arange(6, dtype=np.uint8)[:, None, None, None] * np.ones((1, 2, 2, 3), dtype=np.uint8)
        dataset = DomainDataset(images, [0, 1, 0, 1, 0, 1], [0, 0, 1, 1, 2, 2], ("a", "b"), ("x", "y", "z"))
        chosen = dataset.only("z", "x")
        assert chosen.domain_names == ("z", "x")
        assert chosen.domains.tolist() == [1, 1, 0, 0]
        assert chosen.images[:, 0, 0, 0].tolist() == [0, 1, 4, 5]
        assert dataset.without("y").domain_names == ("x", "z")
        with pytest.raises(DataError, match=r"there is no domain 'w'.*x, y, z"):
            dataset.only("w")

    def test_the_fingerprint_sees_every_change(self):
        images = np.zeros((4, 2, 2, 3), dtype=np.uint8)
        dataset = DomainDataset(images, [0, 1, 0, 1], [0, 0, 1, 1], ("a", "b"), ("x", "y"))
        touched = images.copy()
        touched[3, 1, 1, 2] = 1
        variants = [
            dataset,
            replace(dataset, images=touched),
            replace(dataset, labels=[1, 1, 0, 1]),
            replace(dataset, domains=[0, 1, 1, 1]),
            replace(dataset, class_names=("a", "c")),
            replace(dataset, splits=("train", "train", "val", "train")),
        ]
        assert len({variant.fingerprint() for variant in variants}) == 6

    @pytest.mark.parametrize(
        ("change", "words"),
        [
            ({"images": np.zeros((2, 2, 2, 3))}, "uint8"),
            ({"labels": [0]}, "one integer for each of the 2 images"),
            ({"labels": [0, 5]}, "0 to 5, but there are 2 names"),
            ({"paths": ("a",)}, "paths must be empty or have one entry"),
        ],
    )
    def test_what_does_not_fit_is_a_sentence(self, change, words):
        fine = {
            "images": np.zeros((2, 2, 2, 3), dtype=np.uint8),
            "labels": [0, 1],
            "domains": [0, 0],
            "class_names": ("a", "b"),
            "domain_names": ("x",),
        }
        with pytest.raises(DataError, match=words):
            DomainDataset(**{**fine, **change})


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


def test_every_public_name_exists_and_nothing_else_does():
    assert all(getattr(homefold, name) is not None for name in homefold.__all__)
    assert dir(homefold) == sorted(homefold.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = homefold.nonsense


def test_examples_in_docstrings_run():
    attempted = 0
    for module in pkgutil.walk_packages(homefold.__path__, "homefold."):
        if module.name.endswith("__main__"):
            continue
        results = doctest.testmod(importlib.import_module(module.name), optionflags=doctest.ELLIPSIS)
        assert results.failed == 0, module.name
        attempted += results.attempted
    assert attempted > 30


def test_importing_the_package_does_not_import_torch():
    code = "import sys, homefold; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
