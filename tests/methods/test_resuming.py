"""Methods that keep more than weights between two epochs go on from a checkpoint to the same bytes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from homefold.features.loop import TrainingRun
from homefold.methods.training.dson import Dson
from homefold.methods.training.eisnet import EisNet
from homefold.methods.training.l2a_ot import L2aOt
from homefold.methods.training.m_ada import MAda
from homefold.methods.training.masf import Masf
from homefold.store.stage_store import StageStore

pytestmark = pytest.mark.slow

METHODS = [
    EisNet(memory=64),
    Masf(),
    Dson(),
    MAda(ascent=2, encoder_epochs=1, images=20),
    L2aOt(width=4, blocks=1, warm_up=1),
]


class Killed(BaseException):
    """Stands for the end of the process: nothing catches it."""


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.info.name)
def test_a_killed_training_goes_on_to_the_same_bytes(method, task_for, monkeypatch, tmp_path):
    task = task_for(method, features__select="last", features__checkpoint_seconds=0.0, features__batch_size=64)
    whole = method.train(task).stages[0].state["learner"]
    task = replace(task, stages=StageStore(tmp_path / "elsewhere"))
    trained = TrainingRun.train_epoch

    def die_in_the_third(run, checkpoint):
        if run.epoch == 2:
            raise Killed
        return trained(run, checkpoint)

    monkeypatch.setattr(TrainingRun, "train_epoch", die_in_the_third)
    with pytest.raises(Killed):
        method.train(task)
    monkeypatch.setattr(TrainingRun, "train_epoch", trained)
    resumed = method.train(task).stages[0].state["learner"]
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())
