"""Class means by hand: directions are averaged, held-out images are left out, a class without images is no answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from homefold.data.splits import selection_split
from homefold.methods import ImageSet
from homefold.methods.test_time.class_means import unit_class_means

RED, DARK_RED, GREEN, BLUE = [200, 0, 0], [20, 0, 0], [0, 200, 0], [0, 0, 200]


def coloured(*colours):
    return np.array(colours, dtype=np.uint8)[:, None, None, :]


def softmax(*logits):
    powers = np.exp(logits)
    return powers / powers.sum()


@pytest.fixture
def contrary(toy):
    """Red and green are class 0 and blue is class 1, but the classifier says 1 with certainty e² to 1 for red."""
    layer = nn.Linear(3, 2)
    layer.load_state_dict({"weight": torch.tensor([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]]), "bias": torch.zeros(2)})
    images = coloured(*[RED] * 4, *[GREEN] * 4, *[BLUE] * 4)
    return toy(nn.Flatten(), layer, images, [0] * 8 + [1] * 4)


def test_each_feature_counts_as_a_direction_whatever_its_length():
    z = torch.tensor([[10.0, 0.0], [0.0, 1.0], [0.0, -3.0]])
    means = unit_class_means(z, torch.tensor([0, 0, 2]), 3)
    half = 0.5**0.5
    assert means.tolist() == [pytest.approx([half, half]), [0, 0], [0, -1]]


def test_it_answers_with_the_softmax_of_the_cosines_to_the_class_means(toy):
    images = coloured(*[RED] * 4, *[DARK_RED] * 4, *[BLUE] * 8)
    wrapped = toy(nn.Flatten(), nn.Linear(3, 2), images, [0] * 8 + [1] * 8).wrapped_by("class-means", temperature=0.5)
    (found,) = wrapped.answer(ImageSet(coloured([30, 0, 40]), "x")).predictions.probabilities
    assert found == pytest.approx(softmax(0.6 / 0.5, 0.8 / 0.5), abs=1e-6)


def test_a_share_leaves_the_rest_to_the_classifier(contrary):
    target = ImageSet(coloured([255, 0, 0]), "x")
    wrapped = contrary.wrapped_by("class-means", share=0.25, temperature=1.0)
    train, _ = selection_split(contrary.task.source, contrary.task.config.features.held_out, contrary.task.config.seed)
    red, green = (train < 4).sum(), ((train >= 4) & (train < 8)).sum()
    means = softmax(red / np.hypot(red, green), 0)
    (found,) = wrapped.answer(target).predictions.probabilities
    assert found == pytest.approx(0.25 * means + 0.75 * softmax(0, 2), abs=1e-6)


def test_held_out_images_are_no_part_of_a_mean(toy):
    labels = [0] * 10 + [1] * 10
    split = toy(nn.Flatten(), nn.Linear(3, 2), None, labels).task
    _, held_out = selection_split(split.source, split.config.features.held_out, split.config.seed)
    colours = coloured(*[RED] * 10, *[GREEN] * 10)
    colours[held_out] = BLUE
    wrapped = toy(nn.Flatten(), nn.Linear(3, 2), colours, labels).wrapped_by("class-means")
    assert wrapped._means.tolist() == [pytest.approx([1, 0, 0]), pytest.approx([0, 1, 0])]


def test_labelled_target_images_of_few_shot_adaptation_are_part_of_a_mean(contrary):
    blue = replace(contrary.task.source.subset([0] * 100), images=np.repeat(coloured(BLUE), 100, axis=0))
    few = replace(contrary, task=replace(contrary.task, adapt=blue))
    target = ImageSet(coloured([60, 60, 250]), "x")
    assert contrary.wrapped_by("class-means").answer(target).predictions.indices.tolist() == [1]
    assert few.wrapped_by("class-means").answer(target).predictions.indices.tolist() == [0]


def test_a_class_without_training_images_is_never_answered(toy):
    # Opposite to all means, where a mean of zero would be the nearest.
    opposite = nn.Sequential(nn.Flatten(), _Minus())
    wrapped = toy(opposite, nn.Linear(3, 3), coloured(*[GREEN] * 5, *[BLUE] * 5), [0] * 5 + [2] * 5)
    wrapped.trained.source_features = lambda: torch.tensor([[0.0, 1, 0]] * 5 + [[0.0, 0, 1]] * 5)
    (found,) = (
        wrapped.wrapped_by("class-means").answer(ImageSet(coloured([0, 255, 255]), "x")).predictions.probabilities
    )
    assert found == pytest.approx([0.5, 0, 0.5], abs=1e-6)


class _Minus(nn.Module):
    def forward(self, x):
        return -x


@pytest.mark.slow
def test_on_trained_features_it_is_what_a_loop_over_classes_finds(finished, scan):
    base = finished("deep-all")
    z = base.trained.source_features()
    train, _ = selection_split(base.task.source, base.task.config.features.held_out, base.task.config.seed)
    labels = base.task.source.labels[train]
    means = torch.stack([F.normalize(z[train][labels == k], dim=1).mean(dim=0) for k in range(3)])
    answers = base.wrapped_by("class-means").answer(ImageSet(scan.images, "scan"))
    cosine = F.cosine_similarity(answers.features[:, None], means[None], dim=2)
    expected = torch.softmax(cosine / 0.1, dim=1).numpy()
    assert answers.predictions.probabilities == pytest.approx(expected, abs=1e-5)
