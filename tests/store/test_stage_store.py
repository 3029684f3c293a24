"""The stage store: trained once, found again, never half-written, safe when several want the same."""

from __future__ import annotations

import os
import threading
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from homefold.errors import ModelFileError
from homefold.store.files import write_state
from homefold.store.stage_store import StageStore, stage_id


class Trainer:
    """Counts how often it trains."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, checkpoint: Path) -> dict[str, Any]:
        self.count += 1
        return {"weights": torch.full((3,), float(self.count)), "note": "trained"}


ID = stage_id("features", source="abc", seed=0)


def test_a_stage_is_trained_once_and_found_by_another_store(tmp_path: Path):
    train = Trainer()
    first = StageStore(tmp_path).get(ID, train)
    second = StageStore(tmp_path).get(ID, train)
    assert train.count == 1
    assert (first.made_now, second.made_now) == (True, False)
    assert torch.equal(second.state["weights"], torch.ones(3))
    assert second.state["note"] == "trained"
    assert second.seconds == first.seconds > 0


def test_whatever_decides_the_result_makes_another_stage(tmp_path: Path):
    store, train = StageStore(tmp_path), Trainer()
    for other in (
        ID,
        stage_id("features", source="abd", seed=0),
        stage_id("features", source="abc", seed=1),
        stage_id("manifold", source="abc", seed=0),
    ):
        store.get(other, train)
    assert train.count == 4


def test_a_plan_can_ask_what_is_there(tmp_path: Path):
    store = StageStore(tmp_path / "stages")
    assert not store.has(ID)
    assert not (tmp_path / "stages").exists()
    store.get(ID, Trainer())
    assert store.has(ID)


def test_two_at_once_train_once(tmp_path: Path):
    started, go_on = threading.Event(), threading.Event()
    count: list[str] = []

    def slow(checkpoint: Path) -> dict[str, Any]:
        count.append("trained")
        started.set()
        go_on.wait(10)
        return {"value": 1}

    found: list[Any] = []
    first = threading.Thread(target=lambda: found.append(StageStore(tmp_path).get(ID, slow)))
    first.start()
    assert started.wait(10)
    second = threading.Thread(target=lambda: found.append(StageStore(tmp_path).get(ID, slow)))
    second.start()
    go_on.set()
    first.join()
    second.join()
    assert count == ["trained"]
    assert sorted(stage.made_now for stage in found) == [False, True]


def test_a_training_that_ends_early_leaves_its_checkpoint_to_the_next(tmp_path: Path):
    def killed(checkpoint: Path) -> dict[str, Any]:
        checkpoint.write_text("epoch 3")
        raise KeyboardInterrupt

    store = StageStore(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        store.get(ID, killed)
    assert not store.has(ID)
    seen: list[str] = []

    def goes_on(checkpoint: Path) -> dict[str, Any]:
        seen.append(checkpoint.read_text())
        return {"value": 1}

    folder = store.get(ID, goes_on).folder
    assert seen == ["epoch 3"]
    assert sorted(path.name for path in folder.iterdir()) == ["stage.json", "state.safetensors"]


def test_a_checkpoint_beside_a_finished_stage_is_deleted_by_the_next_who_needs_it(tmp_path: Path):
    store, train = StageStore(tmp_path), Trainer()
    checkpoint = store.get(ID, train).folder / "checkpoint.safetensors"
    checkpoint.write_text("epoch 3")
    assert not store.get(ID, train).made_now
    assert not checkpoint.exists()


def test_a_damaged_stage_is_trained_again(tmp_path: Path):
    store, train = StageStore(tmp_path), Trainer()
    state = store.get(ID, train).folder / "state.safetensors"
    state.write_bytes(state.read_bytes()[:-5])
    assert store.get(ID, train).made_now
    assert train.count == 2


def test_a_damaged_checkpoint_is_thrown_away(tmp_path: Path):
    store = StageStore(tmp_path)
    (tmp_path / ID.name).mkdir()
    (tmp_path / ID.name / "checkpoint.safetensors").write_text("rubbish")

    def train(checkpoint: Path) -> dict[str, Any]:
        if checkpoint.exists():
            raise ModelFileError("it cannot be read.")
        return {"value": 7}

    assert store.get(ID, train).state == {"value": 7}


@pytest.mark.parametrize(
    "text", ["[]", "3", "{}", '{"seconds": "x"}', '{"seconds": null}', "[" * 100_000, "9" * 5000, "\xff"]
)
def test_a_stage_whose_record_is_odd_is_trained_again(tmp_path: Path, text: str):
    store, train = StageStore(tmp_path), Trainer()
    (store.get(ID, train).folder / "stage.json").write_text(text, encoding="latin-1")
    assert store.get(ID, train).made_now
    assert not store.get(ID, train).made_now


def test_a_pipe_in_the_place_of_a_stage_is_not_waited_for(tmp_path: Path):
    store, train = StageStore(tmp_path), Trainer()
    folder = store.get(ID, train).folder
    for name in ("stage.json", "state.safetensors"):
        (folder / name).unlink()
        os.mkfifo(folder / name)
        assert store.get(ID, train).made_now


def test_what_follows_from_a_stage_is_computed_once(tmp_path: Path):
    store, calls = StageStore(tmp_path), []

    def make() -> dict[str, Any]:
        calls.append(1)
        return {"features": torch.arange(3.0)}

    def fits(state: Any) -> bool:
        return isinstance(state, dict) and "features" in state

    folder = store.get(ID, Trainer()).folder
    for _ in range(2):
        assert torch.equal(store.derived(folder, "images-x", make, fits)["features"], torch.arange(3.0))
    assert len(calls) == 1
    write_state(folder / "images-x.safetensors", ["something else"])
    assert torch.equal(store.derived(folder, "images-x", make, fits)["features"], torch.arange(3.0))
    assert len(calls) == 2


def test_a_stage_that_is_not_of_a_module_is_told_with_its_folder(tmp_path: Path):
    stage = StageStore(tmp_path).get(ID, lambda _: {"net": nn.Linear(3, 2).state_dict(), "report": 3})
    same = nn.Linear(3, 2)
    stage.load_into(same, "net")
    assert torch.equal(same.weight, stage.part("net")["weight"])
    with pytest.raises(ModelFileError, match=rf"the trained stage in {stage.folder} has no classifier; delete that"):
        stage.part("classifier")
    for module, words in (
        (nn.Linear(4, 2), "'weight' should be 2 × 4 of float32, and is 2 × 3 of float32"),
        (nn.Linear(3, 2, bias=False), "there should be no tensor 'bias'"),
        (nn.Linear(3, 2).double(), "'weight' should be 2 × 3 of float64, and is 2 × 3 of float32"),
        (nn.Sequential(nn.Linear(3, 2)), "the tensor '0.weight' is missing"),
    ):
        with pytest.raises(ModelFileError, match=rf"{stage.folder}, which can be deleted, does not fit: .*{words}"):
            stage.load_into(module, "net")
    with pytest.raises(ModelFileError, match="should be tensors by name; got 3"):
        stage.load_into(nn.Linear(3, 2), "report")


def test_machines_that_do_not_see_each_others_locks_both_end_with_the_stage(tmp_path: Path, monkeypatch):
    """As on many network file systems: both train, from the same checkpoint even, and what stands is whole."""
    monkeypatch.setattr("homefold.store.stage_store.locked_beside", lambda path: nullcontext())
    together, ended = threading.Barrier(2, timeout=30), list[Any]()

    def train(checkpoint: Path | None) -> dict[str, Any]:
        assert checkpoint is not None
        write_state(checkpoint, {"epoch": 1})
        together.wait()
        return {"weights": torch.arange(3.0)}

    def machine() -> None:
        ended.append(StageStore(tmp_path).get(ID, train))

    machines = [threading.Thread(target=machine) for _ in range(2)]
    for thread in machines:
        thread.start()
    for thread in machines:
        thread.join(30)
    assert [stage.made_now for stage in ended] == [True, True]
    found = StageStore(tmp_path).get(ID, train)
    assert not found.made_now
    assert torch.equal(found.state["weights"], torch.arange(3.0))
    assert sorted(path.name for path in (tmp_path / ID.name).iterdir()) == ["stage.json", "state.safetensors"]


def test_a_checkpoint_that_another_machine_took_away_is_done_without(tmp_path: Path):
    folder = tmp_path / ID.name
    write_state(folder / "checkpoint.safetensors", {"epoch": 1})
    began: list[bool] = []

    def train(checkpoint: Path | None) -> dict[str, Any]:
        assert checkpoint is not None
        began.append(checkpoint.exists())
        if checkpoint.exists():
            checkpoint.unlink()  # the other machine has finished
            raise ModelFileError("the checkpoint is missing.")
        return {"weights": torch.ones(1)}

    assert StageStore(tmp_path).get(ID, train).made_now
    assert began == [True, False]
