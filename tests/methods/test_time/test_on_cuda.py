"""Test-time methods on a CUDA device answer as on the CPU; skipped where there is none."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold.methods import ImageSet, find_method

pytestmark = pytest.mark.gpu

SETTINGS = {
    "1-nn": {},
    "class-means": {},
    "t3a": {"batch_size": 16},
    "tent": {"batch_size": 24},
    "ttt": {"steps": 2, "copies": 2},
    "shot-im": {"epochs": 3, "batch_size": 24},
    "memo": {"copies": 8},
}


@pytest.mark.parametrize("name", SETTINGS)
def test_it_adapts_on_the_device_and_is_well_above_chance(name, finished, scan):
    base = finished("rotation" if name == "ttt" else "deep-all")
    task = replace(base.task, device=torch.device("cuda"))
    there = replace(base, task=task, trained=base.method.train(task))
    wrapped = there.wrapped_by(name, **SETTINGS[name])
    wrapped.reset()
    answers = wrapped.answer(ImageSet(scan.images, "scan"))
    assert answers.features.device.type == "cuda"
    assert (answers.predictions.indices == scan.labels).mean() > 0.7


def test_a_head_for_any_other_method_is_trained_there(finished, scan):
    base = finished("deep-all")
    task = replace(base.task, device=torch.device("cuda"), key=replace(base.task.key, source="source on cuda"))
    method = find_method("ttt+deep-all")
    found = replace(method, steps=1).train(task).answer(ImageSet(scan.images, "scan")).predictions.probabilities
    assert np.isfinite(found).all()
