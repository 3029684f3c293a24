"""SHOT-IM by hand: the loss, and that the classifier stays."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from homefold.methods import ImageSet
from homefold.methods.test_time.shot_im import information_loss

SURE = -(0.75 * math.log(0.75) + 0.25 * math.log(0.25))


def test_each_answer_should_be_sure_and_all_classes_occur():
    different = torch.tensor([[math.log(3), 0.0], [0.0, math.log(3)]])
    assert float(information_loss(different)) == pytest.approx(SURE - math.log(2))
    assert float(information_loss(different, diversity=0.5)) == pytest.approx(SURE - 0.5 * math.log(2))
    equal = torch.tensor([[math.log(3), 0.0], [math.log(3), 0.0]])
    assert float(information_loss(equal)) == pytest.approx(0, abs=1e-6)


def test_its_steps_lower_the_loss_on_the_target_and_leave_the_classifier(finished, scan):
    base = finished("deep-all")

    def loss(trained):
        found = trained.answer(ImageSet(scan.images, "scan")).predictions.probabilities
        return float(information_loss(torch.from_numpy(np.log(found + 1e-12))))

    shot = base.wrapped_by("shot-im", epochs=6, batch_size=24, learning_rate=0.01)
    layer = shot.network.layer.weight.clone()
    norm = next(item for item in shot.network.features.modules() if isinstance(item, torch.nn.BatchNorm2d))
    mean = norm.running_mean.clone()
    # Without steps batch normalisation still learns the target's statistics: what is left is the steps' doing.
    still = base.wrapped_by("shot-im", epochs=6, batch_size=24, learning_rate=0.0)
    assert loss(shot) < loss(still) - 0.01
    assert torch.equal(shot.network.layer.weight, layer)
    assert not torch.equal(norm.running_mean, mean)
