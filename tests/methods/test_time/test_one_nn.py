"""1-NN by hand: the neighbour's label, not the classifier's; only images that were trained on are neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from homefold.data.splits import selection_split
from homefold.methods import ImageSet

RED, GREEN = [250, 10, 0], [10, 250, 0]


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
    colours = [[250, 10 * index, 0] for index in range(10)]
    base = toy(nn.Flatten(), nn.Linear(3, 10), coloured(*colours, *colours), [*range(10)] * 2)
    # Two images a class, one of them held out: relabel the held-out ones so that they would be noticed.
    features = base.task.config.features
    train, held_out = selection_split(base.task.source, features.held_out, base.task.config.seed)
    assert len(held_out) == 10
    neighbours = base.wrapped_by("1-nn")._labels.tolist()
    assert sorted(neighbours) == [*range(10)]
    assert neighbours == base.task.source.labels[train].tolist()


def test_on_the_metric_features_it_finds_the_neighbour_that_nearest_projects_to(finished, street):
    settings = {"features__epochs": 1, "classifier__epochs": 3}
    nearest, plain = finished("nearest", **settings), finished("without-projection", **settings)
    projected = nearest.trained.answer(ImageSet(street.images, "street")).projected
    bank, labels = (getattr(plain.wrapped_by("1-nn"), name) for name in ("_bank", "_labels"))
    answers = plain.wrapped_by("1-nn").answer(ImageSet(street.images, "street"))
    found = torch.cdist(projected, bank).argmin(dim=1)
    assert answers.predictions.indices.tolist() == labels[found].tolist()
