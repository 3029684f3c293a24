"""The yardstick beside a model's own figures, and what is said where a model is no better."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from homefold import Homefold, preset_config
from homefold.data.splits import selection_split
from homefold.model import auto_config
from homefold.runtime.progress import SilentReporter
from homefold.stages.encoder import build_net
from homefold.stages.estimate import announcement, estimated_seconds
from homefold.stages.held_out import judgement

MEASURED = {
    "images": 100,
    "with_projection": 0.9,
    "without_projection": 0.9,
    "yardstick": 0.8,
    "yardstick_sees": "starting features",
    "chance": 0.5,
}


@pytest.fixture(scope="module")
def fitted(few_digits, quick_config) -> Homefold:
    config = replace(quick_config, features=replace(quick_config.features, epochs=4))
    return Homefold(config, device="cpu").fit(few_digits.only("scan", "photo"))


@pytest.mark.slow
def test_the_figures_are_those_of_predict_on_the_held_out_images(fitted, few_digits):
    source, found = few_digits.only("scan", "photo"), fitted.reports["held_out"]
    _, held_out = selection_split(source, fitted.config.features.held_out, fitted.config.seed)
    images, truth = np.asarray(source.images)[held_out], source.labels[held_out]
    assert found["images"] == len(held_out)
    assert found["with_projection"] == (fitted.predict(images).indices == truth).mean()
    assert found["without_projection"] == (fitted.predict(images, projected=False).indices == truth).mean()
    assert found["chance"] == pytest.approx(1 / 3, abs=0.02)
    assert (found["yardstick_sees"], found["yardstick"] > 0.5) == ("pixels", True)


@pytest.mark.slow
def test_they_are_kept_in_the_model_and_on_its_card(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    again = Homefold.load(tmp_path / "model", device="cpu")
    assert again.reports["held_out"] == fitted.reports["held_out"]
    assert "logistic regression on the pixels" in (tmp_path / "model" / "README.md").read_text()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({}, ""),
        ({"yardstick": 0.94}, ""),
        ({"yardstick": 0.99}, "and logistic regression on the starting features in 99.0%"),
        ({"with_projection": 0.52}, "hardly better than always saying the most frequent class (50.0%)"),
        ({"with_projection": 0.0, "yardstick": 0.0}, "hardly better"),
    ],
)
def test_a_model_below_its_yardstick_or_near_chance_is_told_so(changes, said):
    told = judgement({**MEASURED, **changes})
    assert (said in told) if said else told == ""


@pytest.mark.slow
def test_auto_is_what_a_fit_does_when_nothing_is_said(few_digits, monkeypatch):
    settings = {"features.weights": "none", "features.epochs": 1, "manifold.epochs": 5, "preprocessing.image_size": 16}
    source = few_digits.only("scan", "photo")
    config = auto_config(source, settings=settings, device="cpu")
    assert config == auto_config(source.images, source.labels, source.domains, settings=settings, device="cpu")
    assert not config.look.leave_familiar
    monkeypatch.setattr("homefold.model._config_for", lambda *_: config)
    model = Homefold(device="cpu").fit(source)
    assert model.config.features.epochs == 1
    given = Homefold(config, device="cpu").fit(source)
    np.testing.assert_array_equal(model.predict_proba(source), given.predict_proba(source))
    # A second fit begins with the images again.
    assert model.fit(few_digits, holdout=("print", "street")).source_domains == ("scan", "photo")


def test_held_out_domains_are_not_counted(few_digits):
    everything = auto_config(few_digits, holdout=("print", "street"), settings={"features.weights": "none"})
    assert everything == auto_config(few_digits.only("scan", "photo"), settings={"features.weights": "none"})


def test_the_estimate_grows_with_images_and_epochs_and_is_told(monkeypatch):
    monkeypatch.setattr(
        "homefold.stages.estimate._seconds", lambda work, _: {"look": 0.01, "learn": 0.03}[work.__name__]
    )
    config = preset_config("small", {"preprocessing.image_size": 16})
    net = build_net(config, (16, 16), pretrained=False)
    device = Homefold(config, device="cpu").device
    few, many = (estimated_seconds(net, config, images, device) for images in (100, 100_000))
    assert few < many
    calibrated = replace(config, calibrate="domains")
    without, three, nine = (
        estimated_seconds(net, each, 100_000, device, domains)
        for each, domains in ((config, 9), (calibrated, 3), (calibrated, 9))
    )
    assert 2 * without < three < 6 * without, "three networks more, each on two thirds of the images"
    assert 5 * without < nine
    said = announcement(config, 100, device)
    assert said.startswith("Chosen for 100 images on cpu: digits-bn at 16 px, 30 epochs")
    assert "Expect about 10 seconds." in said


@pytest.mark.slow
def test_very_uneven_classes_are_told(few_digits, quick_config):
    source = few_digits.only("scan", "photo")
    rows = np.flatnonzero((source.labels != 2) | (np.cumsum(source.labels == 2) <= 4))
    told: list[str] = []

    class Heard(SilentReporter):
        def message(self, text: str) -> None:
            told.append(text)

    config = replace(quick_config, features=replace(quick_config.features, epochs=1))
    Homefold(config, device="cpu", reporter=Heard()).fit(source.subset(rows))
    assert [line for line in told if line.startswith("Classes are uneven: 48 images of 0, 4 of 2.")]
    told.clear()
    Homefold(config, device="cpu", reporter=Heard()).fit(source)
    assert not [line for line in told if line.startswith("Classes are uneven")]
