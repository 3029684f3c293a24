"""Methods that keep more than weights between two epochs go on from a checkpoint to the same bytes."""

from __future__ import annotations

import pytest
import torch

from homefold.methods.training.dson import Dson
from homefold.methods.training.eisnet import EisNet
from homefold.methods.training.l2a_ot import L2aOt
from homefold.methods.training.m_ada import MAda
from homefold.methods.training.masf import Masf

pytestmark = pytest.mark.slow

METHODS = [
    EisNet(memory=64),
    Masf(),
    Dson(),
    MAda(ascent=2, encoder_epochs=1, images=20),
    L2aOt(width=4, blocks=1, warm_up=1),
]


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.info.name)
def test_a_killed_training_goes_on_to_the_same_bytes(method, task_for, after_a_kill):
    task = task_for(method, features__select="last", features__checkpoint_seconds=0.0, features__batch_size=64)
    whole = method.train(task).stages[0].state["learner"]
    resumed = after_a_kill(method, task).stages[0].state["learner"]
    assert resumed.keys() == whole.keys()
    assert all(torch.equal(value, whole[name]) for name, value in resumed.items())
