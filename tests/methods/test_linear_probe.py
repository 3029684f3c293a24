"""The linear probe: logistic regression on the untouched backbone, as one linear layer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from homefold.config import preset_config
from homefold.errors import ConfigError
from homefold.features import build_backbone
from homefold.methods import ImageSet, find_method
from homefold.stages.linear_probe import probe_encoder


@pytest.fixture
def weights(tmp_path):
    """A small backbone's weights in a file, as if they had been pretrained."""
    from safetensors.torch import save_file

    torch.manual_seed(5)
    save_file(build_backbone("digits-bn").state_dict(), tmp_path / "start.safetensors")
    return str(tmp_path / "start.safetensors")


def test_it_answers_as_the_regression_it_stands_for(task_for, unseen, weights):
    probe = find_method("linear-probe")
    task = task_for(probe, features__weights=weights)
    trained = probe.train(task)
    answers = trained.answer(ImageSet(unseen.images)).predictions.probabilities

    z = {}
    for name, data in (("source", task.source), ("unseen", unseen)):
        z[name] = probe_encoder(task).extract(data.images)[0].double().numpy()
    train, held_out = task.split
    scaler = StandardScaler().fit(z["source"][train])
    scores, references = [], []
    for strength in (1e-4, 1e-3, 1e-2, 1e-1, 1.0):
        regression = LogisticRegression(C=strength, max_iter=1000)
        regression.fit(scaler.transform(z["source"][train]), task.source.labels[train])
        scores.append(regression.score(scaler.transform(z["source"][held_out]), task.source.labels[held_out]))
        references.append(regression.predict_proba(scaler.transform(z["unseen"])))
    best = int(np.argmax(scores))
    assert trained.facts()["classifier"]["held_out_accuracy"] == scores[best]
    np.testing.assert_allclose(answers, references[best], atol=1e-4)


def test_the_backbone_stays_as_it_started(task_for, weights):
    probe = find_method("linear-probe")
    task = task_for(probe, features__weights=weights)
    probe.train(task)
    started = build_backbone("digits-bn", weights).state_dict()
    kept = probe_encoder(task).net.backbone.state_dict()
    assert all(torch.equal(value, kept[name]) for name, value in started.items())


def test_two_classes_and_a_class_without_images(task_for, unseen, weights):
    probe = find_method("linear-probe")
    task = task_for(probe, features__weights=weights)
    pair = np.unique(task.source.labels)[[0, 2]]
    rows = np.flatnonzero(np.isin(task.source.labels, pair))
    two = replace(task, source=task.source.subset(rows))
    chances = probe.train(two).answer(ImageSet(unseen.images)).predictions.probabilities
    assert np.array_equal(np.flatnonzero(chances.max(axis=0) > 1e-6), pair)
    np.testing.assert_allclose(chances.sum(axis=1), 1, atol=1e-5)
    assert 0.01 < chances[:, pair[0]].mean() < 0.99


def test_random_weights_are_refused():
    probe = find_method("linear-probe")
    with pytest.raises(ConfigError, match="needs a pretrained backbone"):
        probe.configure(preset_config("small"), "quick")
