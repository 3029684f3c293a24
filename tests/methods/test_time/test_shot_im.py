"""SHOT-IM by hand: the loss, and that the classifier stays."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from homefold.config import augmentation_preset
from homefold.methods import ImageSet
from homefold.methods.test_time.shot_im import crops_and_flips, head_and_backbone, information_loss

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


def test_the_backbone_learns_at_a_tenth_of_the_heads_rate(finished, scan):
    shot = finished("deep-all").wrapped_by("shot-im", epochs=1, batch_size=48, learning_rate=0.01)
    net = shot.network.features
    head, backbone = head_and_backbone(net)
    assert {id(x) for x in head} == {id(x) for x in net.head.parameters()}
    assert len(head) + len(backbone) == len(list(net.parameters()))
    moves = {}
    for rate in (1.0, 0.1, 0.0):
        again = finished("deep-all").wrapped_by(
            "shot-im", epochs=1, batch_size=48, learning_rate=0.01, backbone_rate=rate
        )
        before = next(again.network.features.backbone.parameters()).detach().clone()
        again.answer(ImageSet(scan.images, "scan"))
        moves[rate] = float((next(again.network.features.backbone.parameters()).detach() - before).norm())
    assert moves[0.0] == 0
    assert moves[1.0] == pytest.approx(10 * moves[0.1], rel=0.05), "one step of all images"


def test_target_images_are_cropped_and_mirrored_alone():
    full = augmentation_preset("default")
    found = crops_and_flips(full)
    assert found.to_turn_off() == {"crop_min_area": 1, "flip_probability": 0}
    assert (found.crop_min_area, found.flip_probability) == (full.crop_min_area, full.flip_probability)
