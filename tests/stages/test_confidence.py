"""Where the temperature of the confidences is fitted, and what source domains left out in turn tell."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from homefold import Homefold
from homefold.classifier.temperature import fit_temperature
from homefold.config import replace_settings
from homefold.data.dataset import DatasetKeys
from homefold.data.splits import selection_split
from homefold.errors import TrainingDivergedError
from homefold.runtime.progress import SilentReporter
from homefold.stages import calibration
from homefold.stages.calibration import calibration_stage
from homefold.stages.classifier import classifier_stage
from homefold.stages.features import train_feature_stage
from homefold.stages.task import TaskKey, TrainingTask
from homefold.stages.train import train_stages
from homefold.stages.training_features import TrainingFeatures
from homefold.store.model_card import confidence_line
from homefold.store.stage_store import MemoryStages

pytestmark = pytest.mark.slow


class Told(SilentReporter):
    """Keeps the messages."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def message(self, text: str) -> None:
        self.messages.append(text)


@pytest.fixture(scope="module")
def source(few_digits):
    return few_digits.only("scan", "photo", "print")


@pytest.fixture(scope="module")
def quick_config(quick_config):
    return replace_settings(quick_config, {"features.epochs": 4, "manifold.kind": "nearest"})


def fitted(config, source, calibrate, **options) -> Homefold:
    return Homefold(replace(config, calibrate=calibrate), device="cpu", **options).fit(source)


def test_without_it_confidence_is_as_the_classifier_says(quick_config, source):
    model = fitted(quick_config, source, "none")
    assert model.feature_model.temperature == 1.0
    assert "calibration" not in model.reports
    assert confidence_line(model.reports) == "not calibrated"


def test_on_held_out_images_it_is_the_temperature_that_explains_their_labels_best(quick_config, source):
    model = fitted(quick_config, source, "images")
    _, held_out = selection_split(source, quick_config.features.held_out, quick_config.seed)
    raw = torch.from_numpy(model.features(source))[torch.from_numpy(held_out)]
    logits = model.feature_model.logits(model.feature_model.prepare(raw))
    expected = fit_temperature(logits, torch.from_numpy(source.labels[held_out]))
    assert model.feature_model.temperature == pytest.approx(expected, rel=1e-4)
    plain = fitted(quick_config, source, "none")
    ours, theirs = (each.predict(source.images[:20]) for each in (model, plain))
    np.testing.assert_array_equal(ours.indices, theirs.indices)
    assert not np.allclose(ours.probabilities, theirs.probabilities, atol=1e-4)


def test_on_domains_each_is_answered_by_a_model_that_was_fitted_without_it(quick_config, source):
    model = fitted(quick_config, source, "domains")
    logits, labels, weights = [], [], []
    for name in source.domain_names:
        other = fitted(quick_config, source.without(name), "none")
        own = source.only(name)
        styled = torch.from_numpy(other.searched_features(own.images))
        logits.append(other.feature_model.logits(other.feature_model.prepare(styled)))
        labels.append(torch.from_numpy(own.labels))
        weights.append(torch.full((len(own),), 1 / len(own)))
        found = float((logits[-1].argmax(1) == labels[-1]).float().mean())
        assert model.reports["calibration"]["accuracy"][name] == pytest.approx(found)
    expected = fit_temperature(torch.cat(logits), torch.cat(labels), torch.cat(weights))
    assert model.feature_model.temperature == pytest.approx(expected, rel=1e-3)
    assert "source domains left out in turn, without projection: scan" in confidence_line(model.reports)


def test_a_saved_model_keeps_it(quick_config, source, tmp_path):
    model = fitted(quick_config, source, "images")
    model.save(tmp_path / "model")
    loaded = Homefold.load(tmp_path / "model", device="cpu")
    assert loaded.feature_model.temperature == model.feature_model.temperature
    assert loaded.reports["calibration"] == model.reports["calibration"]


def test_one_source_domain_is_calibrated_on_its_held_out_images_and_says_so(quick_config, source):
    recorder = Told()
    model = fitted(quick_config, source.only("scan"), "domains", reporter=recorder)
    assert model.reports["calibration"]["fitted_on"] == "held-out images"
    assert "Confidence is calibrated on held-out images, since there is one source domain." in recorder.messages


def test_a_domain_without_which_nothing_can_be_trained_is_passed_over(quick_config, source):
    recorder = Told()
    config = replace(quick_config, calibrate="domains")
    key = TaskKey(DatasetKeys(source).of_labelled(np.arange(len(source))), config)
    task = TrainingTask(key, source, torch.device("cpu"), MemoryStages(), recorder)

    def train(part: TrainingTask):
        if "scan" not in part.source.domain_names:
            raise TrainingDivergedError("the loss became nan.")
        assert part.config.calibrate == "none"
        return train_stages(part, projected=False)

    features = train_feature_stage(task)
    classifier, _ = classifier_stage(task, features)
    found, _ = calibration_stage(task, TrainingFeatures.of(task, features), classifier, train)
    assert set(found.accuracy) == {"photo", "print"}
    assert "Without scan the training came to nothing. the loss became nan." in recorder.messages


def test_a_fit_that_goes_on_finds_its_temperature(quick_config, source, tmp_path, monkeypatch):
    first = fitted_in(tmp_path, quick_config, source)
    monkeypatch.setattr(calibration, "fit_temperature", lambda *_: pytest.fail("fitted again"))
    assert fitted_in(tmp_path, quick_config, source).feature_model.temperature == first.feature_model.temperature


def fitted_in(folder, config, source) -> Homefold:
    return Homefold(replace(config, calibrate="images"), device="cpu").fit(source, work_dir=folder)
