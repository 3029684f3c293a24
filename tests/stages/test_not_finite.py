"""An answer that is not finite is no answer: it is told as an error that names the sample."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

from homefold import Homefold, ManifoldProjector
from homefold.cli import main
from homefold.errors import ConfigError, NotFiniteError
from homefold.methods.base import plain_predictions
from homefold.stages.predictions import Predictions

pytestmark = pytest.mark.slow

HALF = np.full((3, 2), 0.5, dtype=np.float32)


def answers(**changes) -> Predictions:
    ones = np.ones(3, dtype=np.float32)
    whole = np.zeros(3, dtype=np.int64)
    plain = Predictions(("a", "b"), HALF, ones, ones, whole, whole, ones, ones > 0, ("encoder",))
    return replace(plain, **changes)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["probabilities", "off_manifold", "similarity_before", "similarity_after"])
def test_figures_that_are_not_finite_are_refused(name, value):
    figures = getattr(answers(), name).copy()
    figures[1] = value
    with pytest.raises(NotFiniteError, match="no finite answer for sample 1 of those given") as told:
        answers(**{name: figures})
    assert told.value.row == 1
    with pytest.raises(NotFiniteError, match=r"no finite answer for b\.png: "):
        answers(**{name: figures, "paths": ("a.png", "b.png", "c.png")})


def test_answers_without_projection_have_no_score_and_cannot_be_abstained_from():
    plain = plain_predictions(("a", "b"), HALF)
    assert np.isnan(plain.off_manifold).all()
    with pytest.raises(ConfigError, match="answers without projection have no off-manifold scores"):
        plain.abstained(1.0)
    with pytest.raises(NotFiniteError, match="sample 0"):
        plain_predictions(("a", "b"), HALF * math.nan)
    assert len(plain_predictions(("a", "b"), HALF[:0])) == 0


@pytest.mark.parametrize("threshold", [math.nan, -0.1, -math.inf, "1", True])
def test_a_threshold_that_no_score_can_be_compared_with_is_refused(threshold):
    with pytest.raises(ConfigError, match="must be a number from 0; got"):
        answers().abstained(threshold)


def test_thresholds_from_zero_to_infinity():
    scores = answers(off_manifold=np.array([0.5, 1.0, 2.0]))
    assert scores.abstained(0).tolist() == [True, True, True]
    assert scores.abstained(np.float32(1)).tolist() == [False, False, True]
    assert scores.abstained(math.inf).tolist() == [False, False, False]


@pytest.fixture
def broken(fitted, tmp_path) -> Homefold:
    """A model whose classifier overflows, as no check of the weights alone can tell."""
    fitted.save(tmp_path / "model")
    model = Homefold.load(tmp_path / "model", device="cpu")
    layer = model.feature_model.classifier.layers[0]
    with torch.no_grad():
        layer.weight.fill_(3e38)
        layer.weight[1].neg_()
    return model


def test_a_model_that_overflows_tells_for_which_image(broken, few_digits, tmp_path):
    images = few_digits.images[:5]
    for projected in (True, False):
        with pytest.raises(NotFiniteError, match="no finite answer for sample 0 of those given"):
            broken.predict(images, projected=projected)
    Image.fromarray(images[0]).save(tmp_path / "one.png")
    with pytest.raises(NotFiniteError, match=r"no finite answer for .*one\.png: numbers in it are too large"):
        broken.predict(tmp_path / "one.png")
    with pytest.raises(NotFiniteError):
        broken.score(few_digits)


def test_an_image_of_a_later_chunk_is_told_by_its_place_among_all(fitted, few_digits, monkeypatch):
    monkeypatch.setattr("homefold.model._DECODED_AT_ONCE", 2)
    whole = fitted.feature_model.classify
    calls = []

    def overflowing(*found_and_settings):
        calls.append(1)
        found = whole(*found_and_settings)
        return found if len(calls) < 3 else replace(found, probabilities=found.probabilities * math.nan)

    monkeypatch.setattr(fitted.feature_model, "classify", overflowing)
    with pytest.raises(NotFiniteError, match="sample 4 of those given"):
        fitted.predict(few_digits.images[:6])


@pytest.fixture
def overflowing(broken, tmp_path, monkeypatch):
    """The command loads the model that overflows."""
    monkeypatch.setattr(Homefold, "load", lambda *args, **options: broken)
    return tmp_path


def test_the_commands_name_the_image_and_end_with_an_error(overflowing, few_digits, capsys):
    street = overflowing / "data" / "street" / "0"
    street.mkdir(parents=True)
    (street / "0.png").write_bytes(b"no image")
    for i in range(1, 3):
        Image.fromarray(few_digits.images[i]).save(street / f"{i}.png")
    for command in (["predict", "model", str(street)], ["evaluate", "model", str(street.parents[1])]):
        capsys.readouterr()
        assert main([*command, "--skip-bad", "--device", "cpu"]) == 1
        told = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
        assert len(told) == 1
        assert "1.png: numbers in it are too large to compute with" in told[0]


@pytest.mark.parametrize("score", ["nan", "-1", "-inf"])
def test_a_score_that_cannot_be_compared_with_is_refused_before_the_model_is_loaded(score, tmp_path, capsys):
    assert main(["predict", str(tmp_path / "none"), "x.png", f"--abstain-above={score}"]) == 1
    assert "the off-manifold score to abstain above must be a number from 0; got" in capsys.readouterr().err


def test_features_that_are_no_numbers_are_refused_as_scikit_learn_does_and_too_large_ones_by_name():
    random = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 40)
    x = random.normal(size=(3, 16))[y] + 0.3 * random.normal(size=(120, 16))
    model = ManifoldProjector(latent_dim=4, manifold_epochs=40, device="cpu").fit(x, y)
    odd = x[:4].copy()
    odd[2, 3] = np.nan
    for ask in (model.predict, model.predict_proba, model.transform, model.predictions):
        with pytest.raises(ValueError, match="NaN"):
            ask(odd)
    odd[2, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict(odd)
    assert np.isfinite(model.predict_proba(1e37 * x[:4])).all(), "length counts for nothing where it is normalised"
    as_they_are = ManifoldProjector(latent_dim=4, manifold_epochs=40, normalise=False, device="cpu").fit(x, y)
    x[2] *= 1e37
    for ask in (as_they_are.predict, as_they_are.predict_proba, as_they_are.transform, as_they_are.predictions):
        with pytest.raises(NotFiniteError, match="sample 2 of those given"):
            ask(x[:4])
