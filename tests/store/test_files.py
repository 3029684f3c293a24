"""Files and folders are written whole or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import save

from homefold.errors import ModelFileError
from homefold.store.files import (
    _HOST,
    atomic_directory,
    read_json,
    read_state,
    recover,
    write_atomically,
    write_json,
    write_state,
)


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

    @pytest.mark.slow
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

    @pytest.mark.slow
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

    @pytest.mark.slow
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
