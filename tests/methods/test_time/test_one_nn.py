"""1-NN by hand: the neighbour's label, not the classifier's; only images that were trained on are neighbours."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from homefold.data.splits import selection_split
from homefold.methods import ImageSet

RED, GREEN, BLUE = [250, 10, 0], [10, 250, 0], [0, 10, 250]


def coloured(*colours):
    return np.array(colours, dtype=np.uint8)[:, None, None, :]


@pytest.fixture
def contrary(toy):
    """Red is labelled 0 and green 1, but the classifier says the opposite of both."""
    layer = nn.Linear(3, 2)
    layer.load_state_dict({"weight": torch.tensor([[0.0, 2.0, 0.0], [2.0, 0.0, 0.0]]), "bias": torch.zeros(2)})
    return toy(nn.Flatten(), layer, coloured(*[RED] * 10, *[GREEN] * 10), [0] * 10 + [1] * 10)


def test_it_answers_with_the_label_of_the_nearest_source_feature(contrary):
    # Dark red is nearer to red by angle, though nearer to none by distance.
    target = ImageSet(coloured([60, 20, 0], [20, 200, 30]), "x")
    answers = contrary.wrapped_by("1-nn").answer(target).predictions
    assert answers.probabilities.tolist() == [[1, 0], [0, 1]]


def test_a_share_leaves_the_rest_to_the_classifier(contrary):
    target = ImageSet(coloured([255, 0, 0]), "x")
    (found,) = contrary.wrapped_by("1-nn", share=0.25).answer(target).predictions.probabilities
    classifier = 1 / (1 + np.exp(2))  # logits 0 and 2
    assert found == pytest.approx([0.25 + 0.75 * classifier, 0.75 * (1 - classifier)], abs=1e-6)


def test_held_out_images_are_no_neighbours(toy):
    labels = [0] * 10 + [1] * 10
    split = toy(nn.Flatten(), nn.Linear(3, 2), None, labels).task
    _, held_out = selection_split(split.source, split.config.features.held_out, split.config.seed)
    colours = coloured(*[RED] * 10, *[GREEN] * 10)
    colours[held_out[0]] = BLUE  # a red one's label, and nearest to the target, but not trained on
    assert labels[held_out[0]] == 0
    wrapped = toy(nn.Flatten(), nn.Linear(3, 2), colours, labels).wrapped_by("1-nn")
    assert wrapped.answer(ImageSet(coloured([0, 60, 250]), "x")).predictions.indices.tolist() == [1]


def test_labelled_target_images_of_few_shot_adaptation_are_neighbours(contrary):
    blue = replace(contrary.task.source.subset([0]), images=coloured(BLUE))
    few = replace(contrary, task=replace(contrary.task, adapt=blue))
    target = ImageSet(coloured([0, 60, 250]), "x")
    assert contrary.wrapped_by("1-nn").answer(target).predictions.indices.tolist() == [1]
    assert few.wrapped_by("1-nn").answer(target).predictions.indices.tolist() == [0]


def test_on_the_metric_features_it_finds_the_neighbour_that_nearest_projects_to(finished, scan):
    settings = {"features__epochs": 1, "classifier__epochs": 3}
    nearest = finished("nearest", **settings, style__blocks=())
    plain = finished("without-projection", **settings)
    projected = nearest.trained.answer(ImageSet(scan.images, "scan")).projected
    bank, labels = (getattr(plain.wrapped_by("1-nn"), name) for name in ("_bank", "_labels"))
    answers = plain.wrapped_by("1-nn").answer(ImageSet(scan.images, "scan"))
    found = torch.cdist(projected, bank).argmin(dim=1)
    assert answers.predictions.indices.tolist() == labels[found].tolist()
