"""A memory over a folder: T3A on what C sees of each image, in an order that is the same every time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

import homefold.model
from homefold.classifier import build_classifier
from homefold.config import ClassifierConfig
from homefold.data.stream import stream_order
from homefold.errors import ConfigError, DataError
from homefold.stages.folder_memory import FolderMemory
from homefold.stages.task import ImageSet
from homefold.stages.trained_model import Answer

pytestmark = pytest.mark.slow


def softmax(rows):
    scaled = np.exp(rows - rows.max(axis=1, keepdims=True))
    return scaled / scaled.sum(axis=1, keepdims=True)


def entropy(logits):
    p = softmax(logits[None])[0]
    return -float((p * np.log(p)).sum())


def slow_memory(model, z, together=64, supports=20):
    """T3A, one feature after the other: the definition."""
    (layer,) = model.classifier.layers
    weight, bias = (value.detach().double().numpy() for value in (layer.weight, layer.bias))
    kept = {label: [] for label in range(len(weight))}

    def join(feature):
        logits = weight @ feature + bias
        kept[int(logits.argmax())].append((entropy(logits), feature / np.linalg.norm(feature)))

    for row in weight:
        join(row)
    order, answers = stream_order(len(z), model.seed).numpy(), np.empty((len(z), len(weight)))
    for rows in np.array_split(order, -(-len(z) // together)):
        for row in rows:
            join(z[row])
        for label, members in kept.items():
            kept[label] = sorted(members, key=lambda member: member[0])[:supports]
        means = np.stack([sum(feature for _, feature in kept[label]) for label in kept])
        answers[rows] = z[rows] @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    return softmax(answers)


@pytest.fixture(scope="module")
def street(few_digits):
    return few_digits.only("street").images


def test_it_is_t3a_on_projected_features(fitted, street):
    found = fitted.predict(street, adapt=True)
    plain = fitted.predict(street)
    z = fitted.project(street).features.double().numpy()
    assert found.probabilities == pytest.approx(slow_memory(fitted.feature_model, z), abs=1e-4)
    assert (found.adapted, plain.adapted) == (True, False)
    assert [answer.adapted for answer in found] == [True] * len(street)
    assert np.array_equal(found.off_manifold, plain.off_manifold)
    assert abs(found.probabilities - plain.probabilities).max() > 0.01


def test_it_is_t3a_on_features_as_they_are_where_nothing_is_projected(fitted, street):
    z = fitted.feature_model.prepare(torch.from_numpy(fitted.features(street))).double().numpy()
    found = fitted.predict(street, projected=False, adapt=True)
    assert found.probabilities == pytest.approx(slow_memory(fitted.feature_model, z), abs=1e-4)


def test_answers_are_the_same_to_the_bit_however_they_are_read(fitted, street, monkeypatch):
    whole = fitted.predict(street, adapt=True).probabilities
    assert np.array_equal(fitted.predict(street, adapt=True).probabilities, whole)
    monkeypatch.setattr(homefold.model, "_DECODED_AT_ONCE", 7)
    assert np.array_equal(fitted.predict(street, adapt=True).probabilities, whole)
    # Without a memory an answer is its own; with one, fewer images give others.
    half = fitted.predict(street[: len(street) // 2], adapt=True).probabilities
    assert not np.array_equal(half, whole[: len(half)])


def test_of_familiar_images_it_sees_the_features_without_projection(fitted, street):
    model = fitted.feature_model
    answer = fitted.trained.answer(ImageSet(street[:6]), compare=True)
    familiar = np.arange(6) < 2
    left = Answer(answer.predictions.left(answer.plain.predictions, familiar), 0.0, answer.features, answer.found)
    memory = FolderMemory(model)
    memory.add(left)
    z = np.where(familiar[:, None], model.prepare(answer.features).numpy(), answer.found.features.numpy())
    assert memory.answers().probabilities == pytest.approx(slow_memory(model, z.astype(float)), abs=1e-4)
    assert memory.answers().projected.tolist() == (~familiar).tolist()


def test_one_image_has_none_before_it(fitted, street):
    with pytest.raises(DataError, match="there is one image; give several, or leave out adapt"):
        fitted.predict(street[:1], adapt=True)


def test_a_hidden_layer_has_no_memory(fitted):
    hidden = build_classifier(ClassifierConfig(kind="hidden"), 32, 3)
    with pytest.raises(ConfigError, match=r"this model's has a hidden layer \(classifier\.kind=hidden\)"):
        FolderMemory(replace(fitted.feature_model, classifier=hidden))
